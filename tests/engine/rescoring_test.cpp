#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "engine_fixture.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "model/model_loader.hpp"
#include "poisoning_ops.hpp"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

EngineConfig rescoring_config() {
  EngineConfig config;
  config.decoder = "rescore";
  return config;
}

std::vector<Said::Event> partials(const Said& said) {
  std::vector<Said::Event> found;
  std::ranges::copy_if(said.events, std::back_inserter(found),
                       [](const Said::Event& e) { return e.kind == Update::Kind::partial; });
  return found;
}

Said recognize(const EngineConfig& config, const std::string& name) {
  Engine engine(decoder_model(), make_cpu_ops(), config);
  return recognize_alone(engine, clip(name));
}

TEST(Rescoring, PartialsAreThoseOfPrefixSearchAndFinalsAreChosenByAttentionToo) {
  EngineConfig prefix = rescoring_config();
  prefix.decoder = "prefix";
  bool differs = false;
  for (const char* name : {"libri-02.flac", "ocean-24.flac"}) {
    const Said searched = recognize(prefix, name);
    const Said rescored = recognize(rescoring_config(), name);
    EXPECT_FALSE(partials(searched).empty());
    EXPECT_EQ(partials(searched), partials(rescored));
    ASSERT_EQ(searched.finals().size(), rescored.finals().size());
    differs = differs || searched.final_texts() != rescored.final_texts();
    EXPECT_NE(searched.finals()[0].confidence, rescored.finals()[0].confidence);
  }
  EXPECT_TRUE(differs);
}

TEST(Rescoring, WeightsAreThoseThatTheModelStatesUnlessTold) {
  EngineConfig told = rescoring_config();
  told.ctc_weight = 0.5F;
  told.reverse_weight = 0.3F;
  const Said stated = recognize(rescoring_config(), "ocean-24.flac");
  EXPECT_EQ(recognize(told, "ocean-24.flac").finals(), stated.finals());
  told.reverse_weight = 0;
  EXPECT_NE(recognize(told, "ocean-24.flac").finals()[0].confidence, stated.finals()[0].confidence);
  told.ctc_weight = 100;
  EXPECT_NE(recognize(told, "ocean-24.flac").final_texts(), stated.final_texts());
}

TEST(Rescoring, TheDecodersKeysAndValuesMayBeStoredNarrower) {
  const Said exact = recognize(rescoring_config(), "ocean-24.flac");
  for (const char* format : {"bf16", "fp8_e4m3"}) {
    EngineConfig config = rescoring_config();
    config.decoder_kv = format;
    const Said narrow = recognize(config, "ocean-24.flac");
    ASSERT_EQ(narrow.finals().size(), exact.finals().size());
    EXPECT_NE(narrow.finals()[0].confidence, exact.finals()[0].confidence) << format;
    EXPECT_NEAR(narrow.finals()[0].confidence, exact.finals()[0].confidence, 0.01) << format;
  }
}

TEST(Rescoring, RefusesAFormatForKeysAndValuesThatNothingStores) {
  EngineConfig config = rescoring_config();
  config.decoder = "prefix";
  config.decoder_kv = "fp8_e4m3";
  EXPECT_THAT([&] { Engine(decoder_model(), make_cpu_ops(), config); },
              ThrowsMessage<SetupError>(AllOf(HasSubstr("engine.decoder_kv = 'fp8_e4m3'"),
                                              HasSubstr("expected 'f32', or engine.decoder = 'rescore'"))));
  config.decoder = "rescore";
  config.decoder_kv = "fp4";
  EXPECT_THAT([&] { Engine(decoder_model(), make_cpu_ops(), config); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("\"fp4\": expected f32, bf16 or fp8_e4m3")));
}

TEST(Rescoring, WordsHaveTheTimesOfTheirOwnHypothesis) {
  for (const Said::Event& final : recognize(rescoring_config(), "libri-02.flac").finals()) {
    ASSERT_FALSE(final.words.empty());
    int32_t last = -1;
    for (const Word& word : final.words) {
      EXPECT_GT(word.first_frame, last);
      EXPECT_GE(word.last_frame, word.first_frame);
      EXPECT_GT(word.confidence, 0);
      EXPECT_LE(word.confidence, 1);
      last = word.last_frame;
    }
    EXPECT_LE(final.end_sample, final.segment_sample + int64_t{last + 1} * 640);
  }
}

TEST(Rescoring, SegmentsEndWhenNoMoreFramesCanBeKept) {
  EngineConfig config = rescoring_config();
  config.max_rescored_frames = 40;  // two chunks and a half
  const Said said = recognize(config, "libri-02.flac");
  ASSERT_GT(said.finals().size(), 2U);
  for (size_t i = 0; i + 1 < said.finals().size(); ++i) {
    EXPECT_EQ(said.finals()[i].reason, FinalReason::length);
    EXPECT_EQ(said.finals()[i + 1].segment_sample - said.finals()[i].segment_sample, 2 * 16 * 640);
  }
  EXPECT_EQ(said.finals().back().reason, FinalReason::eof);
}

// A model that hears nothing but blanks.
TEST(Rescoring, ASegmentWithoutTokensStartsAnewSilentlyWhenNoMoreFramesCanBeKept) {
  EngineConfig config = rescoring_config();
  config.max_rescored_frames = 40;
  Checkpoint checkpoint = load_model(std::filesystem::path(TUTTI_TEST_DATA) / "conformer-u2pp-tiny");
  checkpoint.weights.take("ctc.ctc_lo.bias").f32()[checkpoint.spec.blank_id] += 1000;
  auto ops = make_cpu_ops();
  const auto deaf = std::make_shared<const ConformerCtc>(
      std::move(checkpoint), *ops, required_positions(config), required_hypothesis_tokens(config));
  Engine engine(deaf, std::move(ops), config);
  const Said said = recognize_alone(engine, clip("libri-02.flac"));
  ASSERT_EQ(said.events.size(), 1U);
  const Said::Event& final = said.events.front();
  EXPECT_EQ(final.reason, FinalReason::eof);
  EXPECT_TRUE(final.text.empty());
  EXPECT_GT(final.segment_sample, 0);
  EXPECT_EQ(final.segment_sample % (2 * 16 * 640), 0);
  EXPECT_EQ(engine.stats().rescored_segments, 1);  // how likely it is that nothing was said
  EXPECT_GT(final.confidence, 0);
  EXPECT_LT(final.confidence, 1);
}

TEST(Rescoring, AFinalOfNoAudioIsEmpty) {
  const auto engine = make_engine(rescoring_config());
  const StreamKey key = engine->admit({}).value();
  must(engine->finalize(key));
  must(engine->finish(key));
  Said said;
  run_until_idle(*engine, [&](const Update& update) { said.add(update); });
  ASSERT_EQ(said.finals().size(), 2U);
  for (const Said::Event& final : said.finals()) {
    EXPECT_TRUE(final.text.empty());
    EXPECT_EQ(final.confidence, 0);
  }
  EXPECT_TRUE(said.done);
  EXPECT_EQ(engine->stats().rescored_segments, 0);
}

// All end together, and a tick rescores no more segments than it has lanes.
TEST(Rescoring, MoreFinalsAtOnceThanATickHasLanesAreAllGiven) {
  EngineConfig config = rescoring_config();
  config.max_batch_size = 2;
  config.max_tick_ms = 10000;  // allows what the lanes allow
  const auto engine = make_engine(config);
  const std::vector<float> samples = clip("ocean-24.flac");
  const auto alone = recognize_alone(*engine, samples).finals();
  std::vector<StreamKey> keys;
  for (int i = 0; i < 9; ++i) {
    keys.push_back(engine->admit({}).value());
    must(engine->feed(keys.back(), samples));
  }
  std::vector<Said> said(keys.size());
  size_t most = 0;
  const auto run = [&] {
    while (engine->has_work()) {
      size_t finals = 0;
      for (const Update& update : engine->tick()) {
        if (update.kind == Update::Kind::final) ++finals;
        for (size_t i = 0; i < keys.size(); ++i) {
          if (keys[i] == update.key) said[i].add(update);
        }
      }
      most = std::max(most, finals);
    }
  };
  run();
  for (const StreamKey key : keys) must(engine->finish(key));
  run();
  for (const Said& s : said) {
    EXPECT_EQ(s.finals(), alone);
    EXPECT_TRUE(s.done);
  }
  EXPECT_EQ(most, 2U);
}

TEST(Rescoring, OfAnUploadIsRestedFromToo) {
  const auto engine = make_engine(rescoring_config());
  (void)engine->admit({}).value();  // somebody is live
  StreamOptions upload;
  upload.stream_class = StreamClass::background;
  const StreamKey key = engine->admit(upload).value();
  must(engine->feed(key, clip("ocean-24.flac")));
  must(engine->finish(key));
  while (engine->has_work()) {
    const Clock::time_point before = Clock::now();
    (void)engine->tick();
    const double rescoring = engine->stats().rescore_seconds;
    if (rescoring == 0) continue;
    // The tick, and three times as long: preempted or not, both are longer than four times its rescoring.
    const std::chrono::duration<double> until_next = Clock::now() + engine->rest() - before;
    EXPECT_GE(until_next.count(), 4 * rescoring);
    return;
  }
  FAIL() << "nothing was rescored";
}

TEST(Rescoring, AStreamWhoseRescoringFailsEndsAlone) {
  auto owned = std::make_unique<PoisoningOps>(make_cpu_ops());
  PoisoningOps& ops = *owned;
  Engine engine(decoder_model(), std::move(owned), rescoring_config());
  const std::vector<float> samples = clip("ocean-24.flac");
  const auto alone = recognize_alone(engine, samples).finals();
  for (const bool finishes : {true, false}) {
    const int free = engine.free_streams();
    const StreamKey sick = engine.admit({}).value();
    const StreamKey healthy = engine.admit({}).value();
    Said sick_said;
    Said healthy_said;
    const auto listen = [&](const Update& u) { (u.key == healthy ? healthy_said : sick_said).add(u); };
    must(engine.feed(sick, samples));
    ops.poison_copies(true);
    run_until_idle(engine, listen);
    ops.poison_copies(false);
    must(engine.feed(healthy, samples));
    run_until_idle(engine, listen);
    must(finishes ? engine.finish(sick) : engine.finalize(sick));
    must(engine.finish(healthy));
    run_until_idle(engine, listen);
    EXPECT_EQ(healthy_said.finals(), alone);
    EXPECT_TRUE(healthy_said.done);
    EXPECT_TRUE(sick_said.finals().empty());
    EXPECT_FALSE(sick_said.done);
    ASSERT_FALSE(sick_said.events.empty());
    EXPECT_EQ(sick_said.events.back().kind, Update::Kind::error);
    EXPECT_THAT(sick_said.events.back().text, HasSubstr("rescoring of this stream"));
    EXPECT_EQ(engine.free_streams(), free);
  }
  EXPECT_EQ(engine.stats().failed_streams, 2);
  EXPECT_EQ(recognize_alone(engine, samples).finals(), alone);
}

// With unlimited history a stream ends its segment before it is dispatched, in the tick of its next chunk.
TEST(Rescoring, AStreamThatFailsWhereItsHistoryIsFullIsNotDispatched) {
  auto owned = std::make_unique<PoisoningOps>(make_cpu_ops());
  PoisoningOps& ops = *owned;
  EngineConfig config = rescoring_config();
  config.num_left_chunks = -1;
  config.max_blocks_per_seq = 2;
  config.max_num_blocks = 2 * config.max_streams;
  Engine engine(decoder_model(), std::move(owned), config);
  const StreamKey key = engine.admit({}).value();
  Said said;
  ops.poison_copies(true);
  must(engine.feed(key, clip("libri-02.flac")));
  run_until_idle(engine, [&](const Update& update) { said.add(update); });
  ASSERT_FALSE(said.events.empty());
  EXPECT_EQ(said.events.back().kind, Update::Kind::error);
  EXPECT_TRUE(said.finals().empty());
  EXPECT_EQ(engine.open_streams(), 0);
}

TEST(Rescoring, RefusesAModelWithoutDecoders) {
  const auto ops = make_cpu_ops();
  EXPECT_THAT(
      [&] { ConformerCtc(load_model(std::filesystem::path(TUTTI_MODELS) / "tutti-en-mini"), *ops, 16, 100); },
      ThrowsMessage<SetupError>(
          HasSubstr("model tutti-en-mini has no attention decoder to rescore with; "
                    "accepted: a model that has one, or the decoder prefix or greedy")));
  EXPECT_THAT([&] { Engine(bundled_model(), make_cpu_ops(), rescoring_config()); },
              ThrowsMessage<SetupError>(HasSubstr("was loaded without attention decoders")));
}

TEST(Rescoring, RefusesWeightsAndLimitsThatCannotBe) {
  EngineConfig config = rescoring_config();
  config.max_rescored_frames = 15;
  EXPECT_THAT([&] { Engine(decoder_model(), make_cpu_ops(), config); },
              ThrowsMessage<SetupError>(
                  HasSubstr("engine.max_rescored_frames = 15: expected at least engine.chunk_size = 16")));
  config = rescoring_config();
  config.reverse_weight = 0.3F;
  const auto ops = make_cpu_ops();
  const auto left_only = std::make_shared<const ConformerCtc>(
      load_model(std::filesystem::path(TUTTI_TEST_DATA) / "conformer-bn-tiny"), *ops,
      required_positions(config), required_hypothesis_tokens(config));
  EXPECT_THAT([&] { Engine(left_only, make_cpu_ops(), config); },
              ThrowsMessage<SetupError>(HasSubstr("has no decoder from right to left; expected 0 or -1")));
  config.reverse_weight = -1;
  EXPECT_NO_THROW(Engine(left_only, make_cpu_ops(), config));
}

}  // namespace
}  // namespace tutti
