#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/model_runner.hpp"
#include "engine_fixture.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "tests/config/patience.hpp"

namespace tutti {
namespace {

using testing::ElementsAre;

// The same audio as one stream without an engine: features of all of it, windows cut by the model's geometry.
std::vector<CtcToken> tokens_without_engine(std::span<const float> samples) {
  const auto model = bundled_model();
  const EngineConfig config;
  const StreamingGeometry geometry = ConformerCtc::geometry(config.chunk_size);
  CacheConfig cache;
  cache.chunk_size = config.chunk_size;
  cache.num_left_chunks = config.num_left_chunks;
  cache.max_streams = cache.max_batch_size = 1;
  ModelRunner runner(model, make_cpu_ops(), cache, std::make_unique<CtcGreedyDecoder>(0, 1000));
  StreamCacheView view = runner.view(7, 0);
  view.allocate();

  const int64_t mel = model->spec().fbank.num_mel_bins;
  const int64_t frames = model->spec().fbank.frames(static_cast<int64_t>(samples.size()));
  std::vector<float> features(static_cast<size_t>(frames * mel));
  const FbankJob job{.samples = samples.data(), .frames = static_cast<int>(frames), .out = features.data()};
  runner.ops().fbank(model->fbank(), {&job, 1});
  int position = 0;
  for (int64_t start = 0; frames - start >= geometry.min_frames; start += geometry.stride) {
    const ChunkLane lane{
        .id = 7,
        .features = features.data() + start * mel,
        .feature_frames = static_cast<int>(std::min<int64_t>(geometry.window, frames - start)),
        .first_position = position};
    const EncoderOutput out = runner.forward({&lane, 1});
    view.get_decoder().decode_chunk({.frames = out.layout.rows(),
                                     .k = 1,
                                     .ids = out.top_ids.i32(),
                                     .log_probs = out.top_log_probs.f32()});
    position += out.layout.rows();
  }
  const auto tokens = view.get_decoder().finalize_stream();
  return {tokens.begin(), tokens.end()};
}

TEST(Segments, NothingIsLostWhereverTheAudioEndsWithinAChunk) {
  const auto engine = make_engine();
  const std::vector<float> samples = clip("libri-06.flac");
  constexpr size_t chunk = 10240;
  // Coprime with the frame shift: ends on every phase of it.
  const auto step = unless_in_a_hurry<size_t>(37 * 7, 37 * 7 * 9);
  for (size_t end = 2 * chunk; end < 3 * chunk; end += step) {
    const std::span<const float> cut = std::span(samples).first(end);
    std::string expected;
    bundled_model()->tokens().write_text(tokens_without_engine(cut), expected);
    const Said said = recognize_alone(*engine, cut, 4000);
    EXPECT_THAT(said.final_texts(), ElementsAre(expected)) << "ending at sample " << end;
  }
}

TEST(Segments, AFinalizeIsAnsweredByExactlyOneFinalWhateverTheLengthBeforeIt) {
  const auto engine = make_engine();
  const std::vector<float> samples = clip("libri-06.flac");
  for (const size_t length : {size_t{0}, size_t{1}, size_t{399}, size_t{400}, size_t{1359}, size_t{1360},
                              size_t{5000}, size_t{10240}, size_t{11200}, size_t{30000}}) {
    const StreamKey key = engine->admit({}).value();
    must(engine->feed(key, std::span(samples).first(length)));
    must(engine->finalize(key));
    Said said;
    run_until_idle(*engine, [&](const Update& u) { said.add(u); });
    ASSERT_EQ(said.finals().size(), 1U) << length;
    EXPECT_EQ(said.finals()[0].reason, FinalReason::finalize);
    EXPECT_LE(said.finals()[0].end_sample, static_cast<int64_t>(length));
    EXPECT_FALSE(said.done);
    engine->release(key);
  }
}

TEST(Segments, WhatFollowsAFinalizeIsRecognizedAsAStreamOfItsOwnOnTheSameClock) {
  const auto engine = make_engine();
  const std::vector<float> first = clip("16k/digit-38.flac");
  const std::vector<float> second = clip("libri-06.flac");
  const auto alone_first = recognize_alone(*engine, first).finals().at(0);
  const auto alone_second = recognize_alone(*engine, second).finals().at(0);

  const StreamKey key = engine->admit({}).value();
  must(engine->feed(key, first));
  must(engine->finalize(key));
  must(engine->feed(key, second));  // before the finalize was carried out
  must(engine->finish(key));
  Said said;
  run_until_idle(*engine, [&](const Update& u) { said.add(u); });
  const auto finals = said.finals();
  ASSERT_EQ(finals.size(), 2U);
  EXPECT_EQ(finals[0].text, alone_first.text);
  EXPECT_EQ(finals[1].text, alone_second.text);
  EXPECT_EQ(finals[1].segment, 1);
  EXPECT_EQ(finals[1].reason, FinalReason::eof);
  EXPECT_EQ(finals[1].start_sample, alone_second.start_sample + static_cast<int64_t>(first.size()));
  EXPECT_EQ(finals[1].end_sample, alone_second.end_sample + static_cast<int64_t>(first.size()));
  EXPECT_TRUE(said.done);
}

TEST(Segments, TwoFinalizesLoseNothingWhereverTheyComeWithinAChunk) {
  const auto engine = make_engine();
  const std::vector<float> samples = clip("libri-06.flac");
  const std::span<const float> audio = std::span(samples).first(40000);
  constexpr size_t chunk = 10240;
  constexpr size_t step = 37 * 13;  // coprime with the frame shift
  for (size_t offset = 20000; offset < 20000 + chunk; offset += step) {
    const StreamKey key = engine->admit({}).value();
    must(engine->feed(key, audio.first(offset)));
    must(engine->finalize(key));
    must(engine->feed(key, audio.subspan(offset)));
    must(engine->finalize(key));
    Said said;
    run_until_idle(*engine, [&](const Update& u) { said.add(u); });
    engine->release(key);
    EXPECT_THAT(said.final_texts(),
                ElementsAre(recognize_alone(*engine, audio.first(offset)).final_texts().at(0),
                            recognize_alone(*engine, audio.subspan(offset)).final_texts().at(0)))
        << "the first at sample " << offset;
  }
}

TEST(Segments, TwoFinalizesInARowGiveTwoFinalsAndTheSecondMayBeEmpty) {
  const auto engine = make_engine();
  const StreamKey key = engine->admit({}).value();
  must(engine->feed(key, clip("16k/digit-38.flac")));
  must(engine->finalize(key));
  must(engine->finalize(key));
  Said said;
  run_until_idle(*engine, [&](const Update& u) { said.add(u); });
  ASSERT_EQ(said.finals().size(), 2U);
  EXPECT_NE(said.finals()[0].text, "");
  EXPECT_EQ(said.finals()[1].text, "");
}

TEST(Segments, AResetForgetsTheOpenSegmentButNotAFinalizeBeforeItNorTheClock) {
  const auto engine = make_engine();
  const std::vector<float> kept = clip("16k/digit-38.flac");
  const std::vector<float> forgotten = clip("libri-06.flac");
  const std::vector<float> last = clip("16k/digit-34.flac");
  const auto alone_last = recognize_alone(*engine, last).finals().at(0);
  const StreamKey key = engine->admit({}).value();
  must(engine->feed(key, kept));
  must(engine->finalize(key));
  must(engine->feed(key, forgotten));
  must(engine->reset(key));
  must(engine->feed(key, last));
  must(engine->finish(key));
  Said said;
  run_until_idle(*engine, [&](const Update& u) { said.add(u); });
  ASSERT_EQ(said.finals().size(), 2U);
  EXPECT_EQ(said.finals()[1].text, alone_last.text);
  EXPECT_EQ(said.finals()[1].start_sample,
            alone_last.start_sample + static_cast<int64_t>(kept.size() + forgotten.size()));
}

TEST(Segments, TooManyCommandsAndAudioAfterTheEndAreRefusedByName) {
  const auto engine = make_engine();
  const StreamKey key = engine->admit({}).value();
  for (int i = 0; i < Engine::max_pending_commands; ++i) must(engine->finalize(key));
  EXPECT_EQ(engine->finalize(key).error().code, "too_many_commands");
  run_until_idle(*engine, [](const Update&) {});
  must(engine->finish(key));
  EXPECT_EQ(engine->feed(key, clip("16k/digit-34.flac")).error().code, "after_eof");
  EXPECT_EQ(engine->finalize(key).error().code, "after_eof");
}

TEST(Segments, AnEmptyStreamEndsWithOneEmptyFinal) {
  const auto engine = make_engine();
  const Said said = recognize_alone(*engine, {});
  EXPECT_THAT(said.final_texts(), ElementsAre(""));
  EXPECT_TRUE(said.done);
}

TEST(Segments, CreditForEverySampleComesBackButForWhatWaitsForItsChunk) {
  const auto engine = make_engine();
  const StreamKey key = engine->admit({}).value();
  const std::vector<float> samples = clip("libri-02.flac");
  must(engine->feed(key, samples));
  Said said;
  run_until_idle(*engine, [&](const Update& u) { said.add(u); });
  const auto waiting = static_cast<int64_t>(samples.size()) - said.consumed_samples;
  EXPECT_GE(waiting, 0);
  EXPECT_LT(waiting, int64_t{engine->sample_rate()} * engine->chunk_ms() / 1000 + 400);
  must(engine->finalize(key));
  run_until_idle(*engine, [&](const Update& u) { said.add(u); });
  EXPECT_EQ(said.consumed_samples, static_cast<int64_t>(samples.size()));
}

}  // namespace
}  // namespace tutti
