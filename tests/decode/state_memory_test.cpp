#include "decode/state_memory.hpp"

#include <gtest/gtest.h>

#include "decode/ctc_prefix_beam.hpp"

namespace tutti {
namespace {

/// A state of some frames, as bytes.
std::vector<std::byte> saved(const CtcDecoder& decoder, int frames) {
  const auto state = decoder.create_state();
  const std::vector<int32_t> ids{1, 2};
  const std::vector<float> log_probs{-0.5F, -1.0F};
  for (int i = 0; i < frames; ++i) {
    decoder.decode_chunk(*state, {.frames = 1, .k = 2, .ids = ids.data(), .log_probs = log_probs.data()});
  }
  return decoder.save_state(*state);
}

TEST(StateMemory, RefusesAStateThatEndsTooEarlyWhereverItEnds) {
  const CtcPrefixBeamDecoder decoder(0, 2, 4);
  const std::vector<std::byte> whole = saved(decoder, 6);
  const auto state = decoder.create_state();
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_THROW(decoder.load_state(*state, std::span(whole).first(bytes)), std::invalid_argument) << bytes;
  }
  decoder.load_state(*state, whole);
  EXPECT_EQ(decoder.save_state(*state), whole);
}

TEST(StateMemory, RefusesAStateOfAWiderBeam) {
  const CtcPrefixBeamDecoder narrow(0, 1, 4);
  const CtcPrefixBeamDecoder wide(0, 2, 4);
  const auto state = narrow.create_state();
  EXPECT_THROW(narrow.load_state(*state, saved(wide, 6)), std::invalid_argument);
}

TEST(StateMemory, SavesNoMoreThanIsUsed) {
  const CtcPrefixBeamDecoder decoder(0, 2, 1024);
  EXPECT_LT(saved(decoder, 0).size(), 200U);
  EXPECT_LT(saved(decoder, 6).size(), 2000U);
}

}  // namespace
}  // namespace tutti
