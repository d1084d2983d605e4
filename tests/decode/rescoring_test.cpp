#include "decode/rescoring.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "model/safetensors.hpp"

namespace tutti {
namespace {

/// The reference's decoder output for its hypotheses, and what it made of it.
struct Reference {
  TensorMap golden;
  std::string utterance;
  int eos;

  [[nodiscard]] TensorView at(const std::string& name) const { return golden.at(utterance + "." + name); }
  [[nodiscard]] size_t hypotheses() const { return static_cast<size_t>(at("dec.hyps_lens").rows()); }
  [[nodiscard]] size_t length(size_t i) const {
    return static_cast<size_t>(at("dec.hyps_lens").i32()[static_cast<int64_t>(i)]);
  }
  /// log p of hypothesis i's tokens in the order in which that decoder reads them, and of eos.
  [[nodiscard]] std::vector<float> log_probs(const std::string& side, size_t i) const {
    const TensorView rows = at("dec." + side + "_log_probs")[static_cast<int64_t>(i)];
    const int32_t* const tokens = at("dec.hyps")[static_cast<int64_t>(i)].i32();
    std::vector<float> picked;
    for (size_t j = 0; j <= length(i); ++j) {
      const int32_t next = j == length(i) ? eos : tokens[side == "left" ? j : length(i) - 1 - j];
      picked.push_back(rows[static_cast<int64_t>(j)].f32()[next]);
    }
    return picked;
  }
};

struct Case {
  const char* model;
  int eos;
  const char* setting;
  RescoringWeights weights;
};

class RescoringReference : public testing::TestWithParam<Case> {};

TEST_P(RescoringReference, ScoresAndConfidencesOfEveryUtteranceEqualTheReference) {
  const auto& [model, eos, setting, weights] = GetParam();
  const std::string under = std::string("resc.") + setting + ".";
  for (const char* utterance : {"utt0", "utt1", "utt2"}) {
    SCOPED_TRACE(utterance);
    const Reference reference{
        load_safetensors(std::filesystem::path(TUTTI_TEST_DATA) / model / "golden.safetensors"), utterance,
        eos};
    size_t best = 0;
    double best_score = -1e30;
    for (size_t i = 0; i < reference.hypotheses(); ++i) {
      const std::vector<float> left = reference.log_probs("left", i);
      const std::vector<float> right =
          weights.reverse > 0 ? reference.log_probs("right", i) : std::vector<float>();
      const double attention = attention_score({left, right}, weights);
      const double score =
          combined_score(attention, reference.at("resc.ctc_scores").f32()[static_cast<int64_t>(i)], weights);
      EXPECT_NEAR(score, reference.at(under + "scores").f32()[static_cast<int64_t>(i)], 1e-3);
      if (score <= best_score) continue;
      best = i;
      best_score = score;
    }
    ASSERT_EQ(static_cast<int32_t>(best), reference.at(under + "best_index").i32()[0]);
    const std::vector<float> left = reference.log_probs("left", best);
    const std::vector<float> right =
        weights.reverse > 0 ? reference.log_probs("right", best) : std::vector<float>();
    EXPECT_NEAR(hypothesis_confidence(attention_score({left, right}, weights), reference.length(best)),
                reference.at(under + "best_confidence").f32()[0], 1e-5);
    const TensorView confidences = reference.at(under + "best_tokens_confidence");
    ASSERT_EQ(confidences.shape[0], static_cast<int64_t>(reference.length(best)));
    for (size_t j = 0; j < reference.length(best); ++j) {
      EXPECT_NEAR(token_confidence({left, right}, j), confidences.f32()[static_cast<int64_t>(j)], 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RescoringReference,
                         testing::Values(Case{"conformer-u2pp-tiny", 2, "cw05_rw03", {0.5F, 0.3F}},
                                         Case{"conformer-u2pp-tiny", 2, "cw05_rw00", {0.5F, 0}},
                                         Case{"conformer-u2pp-tiny", 2, "cw00_rw05", {0, 0.5F}},
                                         Case{"conformer-bn-tiny", 39, "cw05_rw00", {0.5F, 0}}),
                         [](const auto& test) {
                           return std::string(test.param.setting) + "_" + std::to_string(test.param.eos);
                         });

TEST(Rescoring, AnEmptyHypothesisIsTheProbabilityOfEosAlone) {
  const std::vector<float> left = {-2.0F};
  const std::vector<float> right = {-4.0F};
  EXPECT_EQ(attention_score({left, {}}, {.ctc = 1, .reverse = 0}), -2);
  EXPECT_EQ(attention_score({left, right}, {.ctc = 1, .reverse = 0.5F}), -3);
  EXPECT_FLOAT_EQ(hypothesis_confidence(-2, 0), std::exp(-2.0F));
}

TEST(Rescoring, ATokenIsAsProbableAsBothDirectionsFindItOnAverage) {
  const std::vector<float> left = {std::log(0.5F), std::log(0.25F), -1.0F};
  const std::vector<float> right = {std::log(0.75F), std::log(0.1F), -1.0F};
  EXPECT_FLOAT_EQ(token_confidence({left, right}, 0), 0.3F);
  EXPECT_FLOAT_EQ(token_confidence({left, right}, 1), 0.5F);
  EXPECT_FLOAT_EQ(token_confidence({left, {}}, 0), 0.5F);
}

}  // namespace
}  // namespace tutti
