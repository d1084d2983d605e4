#include "decode/ctc_prefix_beam.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <random>

#include "model/safetensors.hpp"

namespace tutti {
namespace {

// The k best tokens of each frame, best first.
struct TopFrames {
  TopFrames(const TensorView& log_probs, int width)
      : k(std::min<int>(width, static_cast<int>(log_probs.cols()))) {
    std::vector<int32_t> order(static_cast<size_t>(log_probs.cols()));
    for (int64_t row = 0; row < log_probs.rows(); ++row) {
      const float* const p = log_probs[row].f32();
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [p](int32_t a, int32_t b) { return p[a] > p[b]; });
      for (int i = 0; i < k; ++i) {
        ids.push_back(order[static_cast<size_t>(i)]);
        values.push_back(p[order[static_cast<size_t>(i)]]);
      }
    }
  }
  [[nodiscard]] int frames() const { return static_cast<int>(ids.size()) / k; }
  [[nodiscard]] CtcFrames slice(int begin, int count) const {
    const ptrdiff_t offset = static_cast<ptrdiff_t>(begin) * k;
    return {.frames = count, .k = k, .ids = ids.data() + offset, .log_probs = values.data() + offset};
  }
  int k;
  std::vector<int32_t> ids;
  std::vector<float> values;
};

void decode(const CtcPrefixBeamDecoder& decoder, CtcState& state, const TopFrames& top, int chunk) {
  for (int begin = 0; begin < top.frames(); begin += chunk) {
    decoder.decode_chunk(state, top.slice(begin, std::min(chunk, top.frames() - begin)));
  }
}

std::vector<CtcHypothesis> nbest_of(const CtcPrefixBeamDecoder& decoder, const CtcState& state) {
  std::vector<CtcHypothesis> hypotheses;
  hypotheses.resize(decoder.write_nbest(state, hypotheses));
  return hypotheses;
}

class CtcPrefixReference : public testing::TestWithParam<std::string> {};

TEST_P(CtcPrefixReference, NBestTokensScoresAndViterbiTimesEqualTheReferenceHoweverTheFramesAreChunked) {
  const TensorMap golden =
      load_safetensors(std::filesystem::path(TUTTI_TEST_DATA) / "ctc-decode" / GetParam());
  const int beam = golden.at("beam_size").view().i32()[0];
  const TopFrames top(golden.at("log_probs"), beam);
  const TensorView tokens = golden.at("nbest_tokens");
  const TensorView lens = golden.at("nbest_lens");
  const TensorView times = golden.at("nbest_times_viterbi");
  const TensorView scores = golden.at("nbest_scores");
  const CtcPrefixBeamDecoder decoder(0, beam, 200);
  const auto state = decoder.create_state();
  for (const int chunk : {1, 7, top.frames()}) {
    decoder.reset_state(*state);
    decode(decoder, *state, top, chunk);
    const auto nbest = nbest_of(decoder, *state);
    ASSERT_EQ(nbest.size(), static_cast<size_t>(lens.rows()));
    for (size_t i = 0; i < nbest.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      EXPECT_NEAR(nbest[i].score, scores.f32()[i], 1e-3) << i;
      ASSERT_EQ(nbest[i].tokens.size(), static_cast<size_t>(lens.i32()[i])) << i;
      for (size_t j = 0; j < nbest[i].tokens.size(); ++j) {
        EXPECT_EQ(nbest[i].tokens[j].id, tokens[row].i32()[j]);
        EXPECT_EQ(nbest[i].tokens[j].last_frame, times[row].i32()[j]);
      }
    }
    EXPECT_TRUE(std::equal(nbest[0].tokens.begin(), nbest[0].tokens.end(), decoder.best(*state).begin(),
                           decoder.best(*state).end()));
  }
}

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TUTTI_TEST_DATA) / "ctc-decode")) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Cases, CtcPrefixReference, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.substr(0, test.param.find('.')); });

// A beam wide enough to keep everything must give each prefix the sum over all alignments that collapse to
// it.
TEST(CtcPrefixBeamDecoder, SumsEveryAlignmentOfAPrefix) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  constexpr int vocabulary = 3;
  constexpr int frames = 6;
  const Tensor log_probs = host_tensor(DType::f32, {frames, vocabulary});
  for (int t = 0; t < frames; ++t) {
    std::vector<double> p(vocabulary);
    double sum = 0;
    for (double& x : p) sum += x = std::exp(std::normal_distribution<>(0, 2)(random));
    for (int v = 0; v < vocabulary; ++v)
      log_probs.view()[t].f32()[v] = static_cast<float>(std::log(p[static_cast<size_t>(v)] / sum));
  }
  std::map<std::vector<int32_t>, double> expected;
  for (int code = 0; code < 729; ++code) {
    std::vector<int32_t> prefix;
    double probability = 1;
    int32_t last = 0;
    for (int t = 0, rest = code; t < frames; ++t, rest /= vocabulary) {
      const int32_t id = rest % vocabulary;
      probability *= std::exp(static_cast<double>(log_probs.view()[t].f32()[id]));
      if (id != 0 && id != last) prefix.push_back(id);
      last = id;
    }
    expected[prefix] += probability;
  }
  const CtcPrefixBeamDecoder decoder(0, max_ctc_beam, frames);
  const auto state = decoder.create_state();
  decode(decoder, *state, TopFrames(log_probs, max_ctc_beam), 2);
  for (const CtcHypothesis& hypothesis : nbest_of(decoder, *state)) {
    std::vector<int32_t> prefix;
    for (const CtcToken& token : hypothesis.tokens) prefix.push_back(token.id);
    EXPECT_NEAR(std::exp(hypothesis.score), expected.at(prefix), 1e-6);
  }
}

TEST(CtcPrefixBeamDecoder, AnNBestListIsReusedAndItsFurtherEntriesAreKept) {
  const CtcPrefixBeamDecoder decoder(0, 2, 4);
  const auto state = decoder.create_state();
  std::vector<CtcHypothesis> hypotheses(3, CtcHypothesis{.tokens = {{.id = 9}, {.id = 9}}, .score = 1});
  ASSERT_EQ(decoder.write_nbest(*state, hypotheses), 1U);  // the empty prefix
  EXPECT_TRUE(hypotheses[0].tokens.empty());
  EXPECT_EQ(hypotheses[0].score, 0);
  EXPECT_EQ(hypotheses.size(), 3U);
  EXPECT_EQ(hypotheses[1].tokens.size(), 2U);
}

TEST(CtcPrefixBeamDecoder, AFullPrefixLivesOnWhenNoFrameOffersItBlankOrItsLastToken) {
  const CtcPrefixBeamDecoder decoder(0, 2, 1);
  const auto state = decoder.create_state();
  const std::vector<int32_t> ids = {1, 2, 2, 3, 3, 1};
  const std::vector<float> log_probs = {-0.1F, -3.0F, -0.1F, -3.0F, -0.1F, -3.0F};
  decoder.decode_chunk(*state, {.frames = 3, .k = 2, .ids = ids.data(), .log_probs = log_probs.data()});
  ASSERT_EQ(decoder.best(*state).size(), 1U);
  EXPECT_EQ(decoder.best(*state)[0],
            (CtcToken{.id = 1, .first_frame = 0, .last_frame = 0, .log_prob = -0.1F}));
}

TEST(CtcPrefixBeamDecoder, StaysWithinItsPoolsOverLongRandomSegmentsAndManyResets) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  constexpr int max_tokens = 20;
  const CtcPrefixBeamDecoder decoder(0, 8, max_tokens);
  const auto state = decoder.create_state();
  for (int segment = 0; segment < 20; ++segment) {
    const Tensor log_probs = host_tensor(DType::f32, {200, 10});
    for (int64_t i = 0; i < 2000; ++i)
      log_probs.view().f32()[i] = -std::exponential_distribution<float>(0.5F)(random);
    decode(decoder, *state, TopFrames(log_probs, 8), 16);
    for (const CtcHypothesis& hypothesis : nbest_of(decoder, *state)) {
      EXPECT_LE(hypothesis.tokens.size(), static_cast<size_t>(max_tokens));
      for (size_t i = 1; i < hypothesis.tokens.size(); ++i) {
        EXPECT_GT(hypothesis.tokens[i].first_frame, hypothesis.tokens[i - 1].last_frame);
      }
    }
    EXPECT_EQ(decoder.frames(*state), 200);
    decoder.reset_state(*state);
    EXPECT_TRUE(decoder.best(*state).empty());
  }
}

}  // namespace
}  // namespace tutti
