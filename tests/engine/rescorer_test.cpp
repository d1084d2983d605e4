#include "engine/rescorer.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <random>

#include "gpu/cpu/cpu_ops.hpp"
#include "model/model_loader.hpp"
#include "model/safetensors.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const std::filesystem::path test_data = TUTTI_TEST_DATA;

std::shared_ptr<const ConformerCtc> load(const std::string& name) {
  const auto ops = make_cpu_ops();
  return std::make_shared<const ConformerCtc>(load_model(test_data / name), *ops, 16, 64);
}

const ConformerCtc& bidirectional_model() {
  static const auto model = load("conformer-u2pp-tiny");
  return *model;
}

/// Stored hypotheses of an utterance, the encoder output they were scored against, and their scores.
struct Reference {
  TensorMap golden;
  std::string under;
  TensorView encoder_out;
  std::vector<CtcHypothesis> hypotheses;

  Reference(const std::string& model, const std::string& utterance, const std::string& encoder_out_name)
      : golden(load_safetensors(test_data / model / "golden.safetensors")), under(utterance + ".") {
    encoder_out = at(encoder_out_name);
    const TensorView tokens = at("dec.hyps");
    const TensorView lens = at("dec.hyps_lens");
    for (int64_t i = 0; i < lens.rows(); ++i) {
      CtcHypothesis& hypothesis = hypotheses.emplace_back();
      for (int j = 0; j < lens.i32()[i]; ++j) hypothesis.tokens.push_back({.id = tokens[i].i32()[j]});
      hypothesis.score = at("resc.ctc_scores").f32()[i];
    }
  }
  [[nodiscard]] TensorView at(const std::string& name) const { return golden.at(under + name); }
  [[nodiscard]] RescoredSegment segment(const Rescorer& rescorer) const {
    RescoredSegment filled = rescorer.make_segment();
    filled.encoder_out = encoder_out;
    filled.count = hypotheses.size();
    for (size_t i = 0; i < hypotheses.size(); ++i) filled.hypotheses[i] = hypotheses[i];
    return filled;
  }
};

const std::vector<Reference>& utterances() {
  static const std::vector<Reference> references = [] {
    std::vector<Reference> read;
    for (const char* utterance : {"utt0", "utt1", "utt2"}) {
      read.emplace_back("conformer-u2pp-tiny", utterance, "full.encoder_out");
    }
    return read;
  }();
  return references;
}

double sum(const std::vector<float>& log_probs) { return attention_score({log_probs, {}}, {}); }

void expect_reference(const Reference& reference, const std::string& setting, const RescoredSegment& found) {
  const std::string under = "resc." + setting + ".";
  ASSERT_FALSE(found.failed);
  for (size_t i = 0; i < found.count; ++i) {
    const auto row = static_cast<int64_t>(i);
    const RescoredHypothesis& scores = found.scores[i];
    EXPECT_EQ(scores.left.size(), found.hypotheses[i].tokens.size() + 1);
    EXPECT_NEAR(sum(scores.left), reference.at(under + "left_scores").f32()[row], 1e-3);
    if (!scores.right.empty()) {
      EXPECT_EQ(scores.right.size(), found.hypotheses[i].tokens.size() + 1);
      EXPECT_NEAR(sum(scores.right), reference.at(under + "right_scores").f32()[row], 1e-3);
    }
    EXPECT_NEAR(scores.total, reference.at(under + "scores").f32()[row], 1e-3);
  }
  EXPECT_EQ(static_cast<int32_t>(found.best), reference.at(under + "best_index").i32()[0]);
  EXPECT_NEAR(found.confidence, reference.at(under + "best_confidence").f32()[0], 1e-5);
  const std::vector<CtcToken>& best = found.hypotheses[found.best].tokens;
  const TensorView confidences = reference.at(under + "best_tokens_confidence");
  ASSERT_EQ(static_cast<int64_t>(best.size()), confidences.shape[0]);
  for (size_t j = 0; j < best.size(); ++j) {
    EXPECT_NEAR(std::exp(best[j].log_prob), confidences.f32()[static_cast<int64_t>(j)], 1e-5);
  }
}

TEST(RescorerReference, BothDirectionsEqualTheReferenceInEverySetting) {
  const std::pair<const char*, RescoringWeights> settings[] = {
      {"cw05_rw03", {0.5F, 0.3F}}, {"cw05_rw00", {0.5F, 0}}, {"cw00_rw05", {0, 0.5F}}};
  for (const auto& [setting, weights] : settings) {
    const auto ops = make_cpu_ops();
    Rescorer rescorer(bidirectional_model(), *ops, {.max_frames = 256, .max_tokens = 32}, weights);
    std::vector<RescoredSegment> segments;
    for (const Reference& reference : utterances()) segments.push_back(reference.segment(rescorer));
    rescorer.run(segments);
    for (size_t i = 0; i < segments.size(); ++i) {
      SCOPED_TRACE(std::string(setting) + " " + utterances()[i].under);
      expect_reference(utterances()[i], setting, segments[i]);
      EXPECT_EQ(segments[i].scores[0].right.empty(), weights.reverse == 0);
    }
  }
}

TEST(RescorerReference, OneDirectionEqualsTheReferenceWhateverTheReverseWeight) {
  const auto model = load("conformer-bn-tiny");
  for (const char* utterance : {"utt0", "utt1", "utt2"}) {
    const Reference reference("conformer-bn-tiny", utterance, "stream.c16_l4.encoder_out");
    const auto ops = make_cpu_ops();
    Rescorer rescorer(*model, *ops, {.max_frames = 256, .max_tokens = 32}, {0.5F, 0.3F});
    RescoredSegment segment = reference.segment(rescorer);
    rescorer.run({&segment, 1});
    expect_reference(reference, "cw05_rw00", segment);
  }
}

/// How far scores move when keys and values are stored in `format`, over all utterances of a model.
struct Moved {
  double token = 0;       ///< the largest difference of a token's log-probability
  double mean_token = 0;  ///< their mean
  double total = 0;       ///< the largest difference of a hypothesis' total
  int tokens = 0;
  int changed_winners = 0;
};
Moved moved_by(DType format, const ConformerCtc& model, const std::vector<Reference>& references) {
  const RescoringWeights weights{0.5F, 0.3F};
  const auto ops = make_cpu_ops();
  Rescorer exact(model, *ops, {.max_frames = 256, .max_tokens = 32}, weights);
  Rescorer narrow(model, *ops, {.max_frames = 256, .max_tokens = 32, .kv_format = format}, weights);
  Moved moved;
  for (const Reference& reference : references) {
    RescoredSegment a = reference.segment(exact);
    RescoredSegment b = reference.segment(narrow);
    exact.run({&a, 1});
    narrow.run({&b, 1});
    moved.changed_winners += a.best == b.best ? 0 : 1;
    for (size_t i = 0; i < a.count; ++i) {
      moved.total = std::max(moved.total, std::abs(a.scores[i].total - b.scores[i].total));
      for (const auto side : {&RescoredHypothesis::left, &RescoredHypothesis::right}) {
        for (size_t j = 0; j < (a.scores[i].*side).size(); ++j) {
          const double by = std::abs((a.scores[i].*side)[j] - (b.scores[i].*side)[j]);
          moved.token = std::max(moved.token, by);
          moved.mean_token += by;
          ++moved.tokens;
        }
      }
    }
  }
  moved.mean_token /= moved.tokens;
  return moved;
}

// Neither changes a winner of these: they are 0.2 apart at least.
TEST(RescorerReference, NarrowKeysAndValuesMoveScoresLittle) {
  const auto one_direction = load("conformer-bn-tiny");
  std::vector<Reference> others;
  for (const char* utterance : {"utt0", "utt1", "utt2"}) {
    others.emplace_back("conformer-bn-tiny", utterance, "stream.c16_l4.encoder_out");
  }
  for (const auto& [format, limit] : {std::pair{DType::bf16, 0.006}, std::pair{DType::f8e4m3, 0.1}}) {
    SCOPED_TRACE(decoder_kv_format_name(format));
    for (const Moved& moved :
         {moved_by(format, bidirectional_model(), utterances()), moved_by(format, *one_direction, others)}) {
      EXPECT_LT(moved.token, limit);
      EXPECT_LT(moved.total, limit);
      EXPECT_GT(moved.mean_token, limit / 1000) << "the format is in use";
      EXPECT_LT(moved.mean_token, limit / 10);
      EXPECT_EQ(moved.changed_winners, 0);
    }
  }
}

void expect_same_bits(const RescoredSegment& a, const RescoredSegment& b) {
  EXPECT_EQ(a.best, b.best);
  EXPECT_EQ(a.confidence, b.confidence);
  for (size_t i = 0; i < a.count; ++i) {
    EXPECT_EQ(a.scores[i].left, b.scores[i].left) << i;
    EXPECT_EQ(a.scores[i].right, b.scores[i].right) << i;
    EXPECT_EQ(a.scores[i].total, b.scores[i].total) << i;
  }
}

// Few lanes and few pages cut the company into batches at other places.
TEST(Rescorer, AHypothesisScoresTheSameBitsAloneAndInAnyCompany) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const RescoringWeights weights{0.5F, 0.3F};
  const auto ops = make_cpu_ops();
  Rescorer solo(bidirectional_model(), *ops, {.max_frames = 256, .max_tokens = 32}, weights);
  std::vector<RescoredSegment> alone;
  for (const Reference& reference : utterances()) {
    alone.push_back(reference.segment(solo));
    solo.run({&alone.back(), 1});
  }
  for (int round = 0; round < 8; ++round) {
    const int lanes = 1 + static_cast<int>(random() % 20);
    const int pages = std::max(19, 2 * lanes) + static_cast<int>(random() % 30);
    Rescorer rescorer(bidirectional_model(), *ops,
                      {.max_frames = 256, .max_tokens = 32, .max_lanes = lanes, .num_pages = pages}, weights);
    std::vector<size_t> which;
    std::vector<RescoredSegment> together;
    for (size_t i = 0; i < 1 + random() % 6; ++i) {
      which.push_back(random() % utterances().size());
      together.push_back(utterances()[which.back()].segment(rescorer));
    }
    rescorer.run(together);
    for (size_t i = 0; i < which.size(); ++i) expect_same_bits(together[i], alone[which[i]]);
  }
}

TEST(Rescorer, HypothesesInAnotherOrderScoreTheSameBits) {
  const auto ops = make_cpu_ops();
  Rescorer rescorer(bidirectional_model(), *ops, {.max_frames = 256, .max_tokens = 32}, {0.5F, 0.3F});
  RescoredSegment there = utterances()[0].segment(rescorer);
  RescoredSegment back = there;
  std::reverse(back.hypotheses.begin(), back.hypotheses.begin() + static_cast<std::ptrdiff_t>(back.count));
  rescorer.run({&there, 1});
  rescorer.run({&back, 1});
  for (size_t i = 0; i < there.count; ++i) {
    EXPECT_EQ(there.scores[i].total, back.scores[there.count - 1 - i].total);
  }
}

TEST(Rescorer, TheFirstOfEqualsIsTheBest) {
  const auto ops = make_cpu_ops();
  Rescorer rescorer(bidirectional_model(), *ops, {.max_frames = 256, .max_tokens = 32}, {0.5F, 0.3F});
  RescoredSegment segment = utterances()[0].segment(rescorer);
  segment.hypotheses[1] = segment.hypotheses[2] = segment.hypotheses[0];
  segment.count = 3;
  rescorer.run({&segment, 1});
  EXPECT_EQ(segment.scores[0].total, segment.scores[2].total);
  EXPECT_EQ(segment.best, 0U);
}

TEST(Rescorer, ASegmentWhoseFramesAreNotFiniteFailsAloneAndHarmsNobodyAfter) {
  const auto ops = make_cpu_ops();
  Rescorer rescorer(bidirectional_model(), *ops, {.max_frames = 256, .max_tokens = 32}, {0.5F, 0.3F});
  RescoredSegment healthy = utterances()[0].segment(rescorer);
  rescorer.run({&healthy, 1});
  std::vector<RescoredSegment> segments = {utterances()[0].segment(rescorer),
                                           utterances()[1].segment(rescorer),
                                           utterances()[0].segment(rescorer)};
  const TensorView frames = utterances()[1].encoder_out;
  const Tensor spoilt =
      host_tensor(frames.shape, {frames.f32(), static_cast<size_t>(frames.shape.elements())});
  spoilt.view().f32()[100] = std::numeric_limits<float>::quiet_NaN();
  segments[1].encoder_out = spoilt;
  rescorer.run(segments);
  EXPECT_TRUE(segments[1].failed);
  EXPECT_FALSE(segments[0].failed);
  expect_same_bits(segments[0], healthy);
  expect_same_bits(segments[2], healthy);
  RescoredSegment after = utterances()[0].segment(rescorer);
  rescorer.run({&after, 1});
  expect_same_bits(after, healthy);
}

TEST(Rescorer, NarrowKeysAndValuesScoreTheSameBitsAloneAndInAnyCompany) {
  for (const DType format : {DType::bf16, DType::f8e4m3}) {
    SCOPED_TRACE(decoder_kv_format_name(format));
    const auto ops = make_cpu_ops();
    Rescorer rescorer(bidirectional_model(), *ops,
                      {.max_frames = 256, .max_tokens = 32, .max_lanes = 7, .kv_format = format},
                      {0.5F, 0.3F});
    std::vector<RescoredSegment> together;
    for (const Reference& reference : utterances()) together.push_back(reference.segment(rescorer));
    rescorer.run(together);
    for (size_t i = 0; i < together.size(); ++i) {
      RescoredSegment alone = utterances()[i].segment(rescorer);
      rescorer.run({&alone, 1});
      expect_same_bits(together[i], alone);
    }
  }
}

TEST(Rescorer, RefusesWhatItCouldNeverServe) {
  const auto ops = make_cpu_ops();
  EXPECT_THAT([&] { Rescorer(bidirectional_model(), *ops, {.max_tokens = 65}, {}); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("max_tokens = 65, expected at most what the model was loaded for, 64")));
  EXPECT_THAT(
      [&] {
        Rescorer(bidirectional_model(), *ops,
                 {.max_frames = 256, .max_tokens = 32, .max_lanes = 4, .num_pages = 18}, {});
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("num_pages = 18, expected at least 19")));
  const ConformerCtc plain(load_model(test_data / "conformer-u2pp-tiny"), *ops, 16);
  EXPECT_THAT([&] { Rescorer(plain, *ops, {}, {}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("without attention decoders")));
}

}  // namespace
}  // namespace tutti
