#include "decode/voice_activity.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "decode/endpoint.hpp"

namespace tutti {
namespace {

constexpr float quiet = -2.0F;
constexpr float loud = 8.0F;

struct Told {
  bool started;
  int64_t frame;
  bool operator==(const Told&) const = default;
};

// A stretch of equal frames.
void hear(VoiceActivity& voice, std::vector<Told>& told, int frames, float energy, float token_probability) {
  for (int i = 0; i < frames; ++i) {
    if (const auto event = voice.observe(energy, token_probability))
      told.push_back({event->started, event->frame});
  }
}

TEST(VoiceActivity, SpeechStartsWhereItBecameLoudAndStopsAfterTheLastVoicedFrame) {
  VoiceActivity voice;
  std::vector<Told> told;
  hear(voice, told, 20, quiet, 0.0F);
  hear(voice, told, 3, loud, 0.1F);  // the head has not spoken up yet
  hear(voice, told, 1, loud, 0.9F);
  hear(voice, told, 10, loud, 0.1F);  // between its spikes
  hear(voice, told, 30, quiet, 0.0F);
  EXPECT_EQ(told, (std::vector<Told>{{true, 20}, {false, 34}}));
  EXPECT_FALSE(voice.speaking());
}

TEST(VoiceActivity, NoiseThatTheHeadTakesForBlankIsNotSpeech) {
  VoiceActivity voice;
  std::vector<Told> told;
  hear(voice, told, 20, quiet, 0.0F);
  hear(voice, told, 500, loud, 0.2F);
  EXPECT_TRUE(told.empty());
}

TEST(VoiceActivity, AQuietTokenIsSpeechAndAShortPauseDoesNotStopIt) {
  VoiceActivity voice;
  std::vector<Told> told;
  for (int i = 0; i < 5; ++i) {
    hear(voice, told, 1, quiet, 0.9F);
    hear(voice, told, 8, quiet, 0.0F);
  }
  EXPECT_EQ(told, (std::vector<Told>{{true, 0}}));
  EXPECT_EQ(voice.unvoiced_frames(), 8);
}

TEST(VoiceActivity, TheFloorFollowsABackgroundThatGrowsLouder) {
  VoiceActivity voice;
  std::vector<Told> told;
  hear(voice, told, 10, quiet, 0.0F);
  hear(voice, told, 1, loud, 0.9F);
  hear(voice, told, 5000, loud, 0.0F);  // a fan was switched on
  EXPECT_FALSE(voice.speaking());
  told.clear();
  hear(voice, told, 1, loud + 3, 0.9F);
  EXPECT_EQ(told.size(), 1U);
}

TEST(Endpoint, EachRuleFiresAtItsTimeAndZeroSwitchesItOff) {
  const EndpointRules rules{.silence_after_speech_ms = 800, .long_silence_ms = 5000, .max_segment_ms = 30000};
  EXPECT_EQ(find_endpoint(rules, {4000, 760, true}), Endpoint::none);
  EXPECT_EQ(find_endpoint(rules, {4000, 800, true}), Endpoint::silence);
  EXPECT_EQ(find_endpoint(rules, {4000, 800, false}), Endpoint::none);
  EXPECT_EQ(find_endpoint(rules, {5000, 5000, false}), Endpoint::idle);
  EXPECT_EQ(find_endpoint(rules, {30000, 0, true}), Endpoint::length);
  EXPECT_EQ(find_endpoint(rules, {30000, 0, false}), Endpoint::none);
  EXPECT_EQ(find_endpoint(EndpointRules::none(), {1000000, 1000000, true}), Endpoint::none);
  EXPECT_EQ(find_endpoint(EndpointRules::none(), {1000000, 1000000, false}), Endpoint::none);
}

}  // namespace
}  // namespace tutti
