#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "engine_fixture.hpp"

namespace tutti {
namespace {

using testing::ElementsAre;

TEST(Engine, TranscribesAClipAsTheReferenceDoesHoweverItsAudioIsCut) {
  const auto engine = make_engine();
  const std::vector<float> samples = clip("libri-02.flac");
  const Said whole_frames = recognize_alone(*engine, samples, 320);
  EXPECT_THAT(whole_frames.final_texts(), ElementsAre(expected_text("libri-02.flac")));
  EXPECT_TRUE(whole_frames.done);
  EXPECT_EQ(whole_frames.audio_samples, static_cast<int64_t>(samples.size()));
  for (const size_t piece : {size_t{1}, size_t{777}, size_t{16000}, samples.size()}) {
    EXPECT_EQ(recognize_alone(*engine, samples, piece).finals(), whole_frames.finals()) << piece;
  }
}

TEST(Engine, PartialsGrowTowardsTheFinalAndStayOnTheClock) {
  const auto engine = make_engine();
  const Said said = recognize_alone(*engine, clip("libri-02.flac"));
  ASSERT_GE(said.events.size(), 3U);
  const auto final = said.events.back();
  EXPECT_EQ(final.kind, Update::Kind::final);
  EXPECT_EQ(final.reason, FinalReason::eof);
  for (size_t i = 0; i + 1 < said.events.size(); ++i) {
    EXPECT_EQ(said.events[i].kind, Update::Kind::partial);
    EXPECT_LE(said.events[i].end_sample, final.end_sample);
    EXPECT_TRUE(final.text.starts_with(said.events[i].text.substr(0, said.events[i].text.rfind(' '))));
  }
}

TEST(Engine, WordsSpellTheFinalInOrderOfTime) {
  const auto engine = make_engine();
  const Said said = recognize_alone(*engine, clip("libri-06.flac"));
  const auto finals = said.finals();
  ASSERT_EQ(finals.size(), 1U);
  std::string joined;
  int32_t frame = -1;
  for (const Word& word : finals[0].words) {
    joined += (joined.empty() ? "" : " ") + word.text;
    EXPECT_GT(word.first_frame, frame);
    EXPECT_GE(word.last_frame, word.first_frame);
    EXPECT_GT(word.confidence, 0.0F);
    EXPECT_LE(word.confidence, 1.0F);
    frame = word.last_frame;
  }
  EXPECT_EQ(joined, finals[0].text);
  EXPECT_EQ(finals[0].start_sample, finals[0].words.front().first_frame * engine->samples_per_frame());
}

TEST(Engine, StreamsWithoutInterimResultsSayOnlyFinals) {
  const auto engine = make_engine();
  const StreamKey key = engine->admit({.interim = false, .words = false}).value();
  must(engine->feed(key, clip("libri-06.flac")));
  must(engine->finish(key));
  Said said;
  run_until_idle(*engine, [&](const Update& u) { said.add(u); });
  ASSERT_EQ(said.events.size(), 1U);
  EXPECT_EQ(said.events[0].kind, Update::Kind::final);
  EXPECT_TRUE(said.events[0].words.empty());
}

}  // namespace
}  // namespace tutti
