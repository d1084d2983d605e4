#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine_fixture.hpp"
#include "tests/config/patience.hpp"

namespace tutti {
namespace {

using testing::ElementsAre;

Said recognize(Engine& engine, std::span<const float> samples, const StreamOptions& options) {
  const StreamKey key = engine.admit(options).value();
  Said said;
  constexpr size_t piece = 1600;
  for (size_t begin = 0; begin < samples.size(); begin += piece) {
    must(engine.feed(key, samples.subspan(begin, std::min(piece, samples.size() - begin))));
    run_until_idle(engine, [&](const Update& u) { said.add(u); });
  }
  must(engine.finish(key));
  run_until_idle(engine, [&](const Update& u) { said.add(u); });
  return said;
}

void append_silence(std::vector<float>& samples, size_t count) { samples.resize(samples.size() + count); }

std::string letters(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += text;
  std::erase(joined, ' ');
  return joined;
}

// Whatever a model makes of pauses, endpoints only cut what it says: nothing is lost, repeated or moved in
// time. Compared by letters, because a pause within what the model takes for one word makes two of it.
TEST(Endpoints, FinalsJoinedAreTheOneFinalOfTheSameStreamWithoutEndpoints) {
  const auto engine = make_engine();
  std::vector<float> stream;
  for (const char* name : {"libri-06.flac", "ocean-24.flac", "16k/digit-38.flac", "ocean-28.flac",
                           "ocean-30.flac", "16k/prompt-43.flac", "libri-02.flac"}) {
    const std::vector<float> samples = clip(name);
    stream.insert(stream.end(), samples.begin(), samples.end());
    append_silence(stream, 16000 + stream.size() % 9999);
  }
  const auto cut = recognize(*engine, stream, {.endpoint = {}}).finals();
  const auto whole = recognize(*engine, stream, {}).finals();
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_GE(std::ranges::count(cut, FinalReason::endpoint, &Said::Event::reason), 5);
  std::vector<std::string> texts;
  std::vector<int64_t> starts;
  for (const Said::Event& final : cut) {
    texts.push_back(final.text);
    for (const Word& word : final.words) {
      starts.push_back(final.segment_sample + int64_t{word.first_frame} * engine->samples_per_frame());
    }
  }
  EXPECT_EQ(letters(texts), letters({whole[0].text}));
  EXPECT_TRUE(std::ranges::is_sorted(starts));
  for (const Word& word : whole[0].words) {
    EXPECT_THAT(starts, testing::Contains(int64_t{word.first_frame} * engine->samples_per_frame()))
        << word.text;
  }
}

TEST(Endpoints, WithoutRulesOneFinalHoldsEverything) {
  const auto engine = make_engine();
  std::vector<float> stream = clip("16k/digit-34.flac");
  append_silence(stream, 60000);
  EXPECT_EQ(recognize(*engine, stream, {}).finals().size(), 1U);
}

TEST(Endpoints, ALongSegmentIsClosedWithLength) {
  const auto engine = make_engine();
  const Said said = recognize(*engine, clip("libri-02.flac"), {.endpoint = {.max_segment_ms = 2000}});
  const auto finals = said.finals();
  ASSERT_GE(finals.size(), 2U);
  EXPECT_EQ(finals[0].reason, FinalReason::length);
}

TEST(Endpoints, SpeechEventsEncloseTheWordsOnTheClock) {
  const auto engine = make_engine();
  std::vector<float> stream(32000);
  const std::vector<float> speech = clip("16k/prompt-43.flac");
  stream.insert(stream.end(), speech.begin(), speech.end());
  append_silence(stream, 48000);
  const Said said = recognize(*engine, stream, {.interim = false, .voice_events = true, .endpoint = {}});
  std::vector<Said::Event> voice;
  std::copy_if(said.events.begin(), said.events.end(), std::back_inserter(voice), [](const Said::Event& e) {
    return e.kind == Update::Kind::speech_started || e.kind == Update::Kind::speech_stopped;
  });
  ASSERT_GE(voice.size(), 2U);
  const auto final = said.finals().at(0);
  EXPECT_EQ(voice.front().kind, Update::Kind::speech_started);
  EXPECT_GE(voice.front().start_sample, 32000 - 16000);
  EXPECT_LE(voice.front().start_sample, final.start_sample);
  EXPECT_EQ(voice.back().kind, Update::Kind::speech_stopped);
  EXPECT_GE(voice.back().start_sample, final.end_sample - 16000);
  for (size_t i = 1; i < voice.size(); ++i) EXPECT_NE(voice[i].kind, voice[i - 1].kind);
}

TEST(Endpoints, AMinuteOfSilenceOrNoiseHasNoWordsNoSpeechAndNoFinalButTheLast) {
  const auto engine = make_engine();
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto seconds = unless_in_a_hurry<size_t>(60, 6);
  for (const float level : {0.0F, 0.0003F, 0.003F, 0.03F, 0.3F}) {
    std::uniform_real_distribution<float> noise(-level, level);
    std::vector<float> samples(16000 * seconds);
    if (level > 0) {
      for (float& s : samples) s = noise(random);
    }
    const Said said = recognize(*engine, samples, {.voice_events = true, .endpoint = {}});
    EXPECT_THAT(said.final_texts(), ElementsAre("")) << level;
    EXPECT_EQ(said.events.size(), 1U) << level;
  }
}

}  // namespace
}  // namespace tutti
