#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "decode/ctc_decoder.hpp"
#include "model/safetensors.hpp"

namespace tutti {
namespace {

// The best token of each frame, as the CTC head would hand it over.
struct BestFrames {
  explicit BestFrames(const TensorView& log_probs) {
    for (int64_t row = 0; row < log_probs.rows(); ++row) {
      const float* const values = log_probs[row].f32();
      const float* const best = std::max_element(values, values + log_probs.cols());
      ids.push_back(static_cast<int32_t>(best - values));
      values_.push_back(*best);
    }
  }
  [[nodiscard]] CtcFrames slice(size_t begin, size_t count) const {
    return {.frames = static_cast<int>(count),
            .k = 1,
            .ids = ids.data() + begin,
            .log_probs = values_.data() + begin};
  }
  std::vector<int32_t> ids;
  std::vector<float> values_;
};

std::vector<CtcToken> decode(const CtcGreedyDecoder& decoder, CtcState& state, const BestFrames& best,
                             size_t chunk) {
  for (size_t begin = 0; begin < best.ids.size(); begin += chunk) {
    decoder.decode_chunk(state, best.slice(begin, std::min(chunk, best.ids.size() - begin)));
  }
  const auto tokens = decoder.finalize_stream(state);
  return {tokens.begin(), tokens.end()};
}

class CtcReference : public testing::TestWithParam<std::string> {};

TEST_P(CtcReference, GreedyTokensAndTimesEqualTheReferenceHoweverTheFramesAreChunked) {
  const TensorMap golden =
      load_safetensors(std::filesystem::path(TUTTI_TEST_DATA) / "ctc-decode" / GetParam());
  const BestFrames best(golden.at("log_probs"));
  const TensorView tokens = golden.at("greedy_tokens");
  const TensorView times = golden.at("greedy_times");
  const CtcGreedyDecoder decoder(0, 1000);
  const auto state = decoder.create_state();
  for (const size_t chunk : {size_t{1}, size_t{3}, size_t{16}, best.ids.size()}) {
    decoder.reset_state(*state);
    const auto result = decode(decoder, *state, best, chunk);
    ASSERT_EQ(result.size(), static_cast<size_t>(tokens.rows()));
    for (size_t i = 0; i < result.size(); ++i) {
      EXPECT_EQ(result[i].id, tokens.i32()[i]);
      EXPECT_EQ(result[i].first_frame, times.i32()[i]);
    }
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

INSTANTIATE_TEST_SUITE_P(Cases, CtcReference, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.substr(0, test.param.find('.')); });

constexpr int blank = 0;

CtcFrames frames_of(const std::vector<int32_t>& ids, const std::vector<float>& log_probs) {
  return {.frames = static_cast<int>(ids.size()), .k = 1, .ids = ids.data(), .log_probs = log_probs.data()};
}

TEST(CtcGreedyDecoder, ARunSplitBetweenChunksIsOneTokenWithItsMostCertainFrame) {
  const CtcGreedyDecoder decoder(blank, 10);
  const auto state = decoder.create_state();
  decoder.decode_chunk(*state, frames_of({0, 7}, {-0.1F, -0.5F}));
  decoder.decode_chunk(*state, frames_of({7, 0, 7}, {-0.2F, -0.1F, -0.3F}));
  const auto tokens = decoder.best(*state);
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(tokens[0], (CtcToken{.id = 7, .first_frame = 1, .last_frame = 2, .log_prob = -0.2F}));
  EXPECT_EQ(tokens[1], (CtcToken{.id = 7, .first_frame = 4, .last_frame = 4, .log_prob = -0.3F}));
}

TEST(CtcGreedyDecoder, ATokenRepeatedAcrossAResetSurvives) {
  const CtcGreedyDecoder decoder(blank, 10);
  const auto state = decoder.create_state();
  decoder.decode_chunk(*state, frames_of({5}, {-0.1F}));
  decoder.reset_state(*state);
  decoder.decode_chunk(*state, frames_of({5}, {-0.1F}));
  ASSERT_EQ(decoder.best(*state).size(), 1U);
  EXPECT_EQ(decoder.best(*state)[0].first_frame, 0);
}

TEST(CtcGreedyDecoder, TokensPastItsCapAreDroppedWholeAndFramesStillCount) {
  const CtcGreedyDecoder decoder(blank, 2);
  const auto state = decoder.create_state();
  decoder.decode_chunk(*state, frames_of({1, 2, 3, 3, 4}, {-0.5F, -0.5F, -0.1F, -0.1F, -0.1F}));
  const auto tokens = decoder.best(*state);
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(tokens[1], (CtcToken{.id = 2, .first_frame = 1, .last_frame = 1, .log_prob = -0.5F}));
  EXPECT_EQ(decoder.frames(*state), 5);
}

TEST(CtcGreedyDecoder, ItsNBestListIsItsOneHypothesisWithTheScoreOfItsAlignment) {
  const CtcGreedyDecoder decoder(blank, 10);
  const auto state = decoder.create_state();
  decoder.decode_chunk(*state, frames_of({1, 1, 0, 2}, {-0.5F, -0.25F, -1.0F, -0.125F}));
  std::vector<CtcHypothesis> hypotheses;
  ASSERT_EQ(decoder.write_nbest(*state, hypotheses), 1U);
  EXPECT_EQ(hypotheses[0].tokens, std::vector(decoder.best(*state).begin(), decoder.best(*state).end()));
  EXPECT_EQ(hypotheses[0].score, -1.875);
  decoder.reset_state(*state);
  ASSERT_EQ(decoder.write_nbest(*state, hypotheses), 1U);
  EXPECT_TRUE(hypotheses[0].tokens.empty());
  EXPECT_EQ(hypotheses[0].score, 0);
}

TEST(CtcGreedyDecoder, AnEmptyHypothesisIsLegal) {
  const CtcGreedyDecoder decoder(blank, 2);
  const auto state = decoder.create_state();
  EXPECT_TRUE(decoder.finalize_stream(*state).empty());
  decoder.decode_chunk(*state, frames_of({0, 0}, {-0.1F, -0.1F}));
  EXPECT_TRUE(decoder.finalize_stream(*state).empty());
}

}  // namespace
}  // namespace tutti
