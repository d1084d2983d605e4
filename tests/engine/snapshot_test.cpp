#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/model_runner.hpp"
#include "engine/snapshot_size.hpp"
#include "engine_fixture.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "tests/config/patience.hpp"

namespace tutti {
namespace {

/// What is asked of a stream next, once all before it is done.
struct Step {
  enum class Kind { feed, finalize, reset, finish };
  Kind kind;
  size_t samples = 0;  // of feed
};

/// A stream in the middle of its life.
struct Moment {
  StreamSnapshot snapshot;
  size_t next_step;   // those before it were asked for
  size_t fed;         // samples
  int64_t commands;   // asked for
  Step::Kind newest;  // of them
  size_t events;      // said
};

EngineConfig config_of(const std::string& decoder) {
  EngineConfig config;
  config.decoder = decoder;
  return config;
}

class Life {
 public:
  Life(const EngineConfig& config, unsigned seed) : config_(config), random_(seed) {
    for (const char* name : {"libri-02.flac", "ocean-28.flac"}) {
      const std::vector<float> speech = clip(name);
      samples_.insert(samples_.end(), speech.begin(), speech.end());
      samples_.resize(samples_.size() + 20000);  // a pause that ends a segment
    }
    for (size_t fed = 0; fed < samples_.size();) {
      const size_t piece = std::min<size_t>(1 + random_() % 24000, samples_.size() - fed);
      steps_.push_back({Step::Kind::feed, piece});
      fed += piece;
      const auto dice = random_() % 8;
      if (dice == 0) steps_.push_back({Step::Kind::finalize});
      if (dice == 1) steps_.push_back({Step::Kind::reset});
    }
    steps_.push_back({Step::Kind::finish});
    options_.voice_events = true;
    options_.endpoint = EndpointRules{.silence_after_speech_ms = 600, .long_silence_ms = 3000};
  }

  /// All of it on one engine, and every moment between two ticks.
  std::vector<Moment> live() {
    const auto engine = make_engine(config_);
    const StreamKey key = engine->admit(options_).value();
    std::vector<Moment> moments;
    size_t fed = 0;
    int64_t commands = 0;
    Step::Kind newest = Step::Kind::feed;
    for (size_t i = 0; i < steps_.size(); ++i) {
      ask(*engine, key, steps_[i], fed);
      if (steps_[i].kind != Step::Kind::feed) {
        ++commands;
        newest = steps_[i].kind;
      }
      while (engine->has_work()) {
        for (const Update& update : engine->tick()) said_.add(update);
        if (auto snapshot = said_.done ? std::nullopt : engine->snapshot(key)) {
          moments.push_back({std::move(*snapshot), i + 1, fed, commands, newest, said_.events.size()});
        }
      }
    }
    return moments;
  }

  /// Goes on from the moment on an engine that others use too.
  Said go_on(const Moment& moment) {
    const auto engine = make_engine(config_);
    const StreamKey neighbour = engine->admit(options_).value();
    must(engine->feed(neighbour, std::span(samples_).subspan(random_() % 9000, 60000)));
    for (auto ticks = random_() % 4; ticks > 0; --ticks) (void)engine->tick();
    const StreamKey key = engine->admit(options_).value();
    must(engine->restore(key, moment.snapshot));
    Said said;
    const auto run = [&] {
      run_until_idle(*engine, [&](const Update& update) {
        if (update.key == key) said.add(update);
      });
    };
    auto fed = static_cast<size_t>(moment.snapshot.sample);
    ask(*engine, key, {Step::Kind::feed, moment.fed - fed}, fed);
    if (moment.snapshot.commands < moment.commands) ask(*engine, key, {moment.newest}, fed);
    run();
    for (size_t i = moment.next_step; i < steps_.size(); ++i) {
      ask(*engine, key, steps_[i], fed);
      run();
    }
    return said;
  }

  [[nodiscard]] const Said& said() const { return said_; }
  [[nodiscard]] size_t pick(size_t count) { return random_() % count; }

 private:
  void ask(Engine& engine, StreamKey key, const Step& step, size_t& fed) {
    switch (step.kind) {
      case Step::Kind::feed:
        must(engine.feed(key, std::span(samples_).subspan(fed, step.samples)));
        fed += step.samples;
        break;
      case Step::Kind::finalize:
        must(engine.finalize(key));
        break;
      case Step::Kind::reset:
        must(engine.reset(key));
        break;
      case Step::Kind::finish:
        must(engine.finish(key));
        break;
    }
  }

  EngineConfig config_;
  std::mt19937 random_;
  std::vector<float> samples_;
  std::vector<Step> steps_;
  StreamOptions options_;
  Said said_;
};

void expect_any_engine_can_go_on(const EngineConfig& config) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Life life(config, seed);
  const std::vector<Moment> moments = life.live();
  ASSERT_GE(moments.size(), 10U);
  ASSERT_TRUE(life.said().done);
  for (int i = 0; i < unless_in_a_hurry(8, 3); ++i) {
    const Moment& moment = moments[life.pick(moments.size())];
    const Said rest = life.go_on(moment);
    const auto& all = life.said().events;
    const std::vector<Said::Event> expected(all.begin() + static_cast<std::ptrdiff_t>(moment.events),
                                            all.end());
    EXPECT_EQ(rest.events, expected) << "from sample " << moment.snapshot.sample;
    EXPECT_TRUE(rest.done);
    EXPECT_EQ(rest.audio_samples, life.said().audio_samples);
  }
}

TEST(Snapshot, AnyEngineGoesOnWithTheStreamToTheBit) {
  for (const char* decoder : {"greedy", "prefix"}) {
    SCOPED_TRACE(decoder);
    expect_any_engine_can_go_on(config_of(decoder));
  }
}

TEST(Snapshot, AnyEngineGoesOnWithARescoredStream) { expect_any_engine_can_go_on(config_of("rescore")); }

TEST(Snapshot, AnyEngineGoesOnWhereBlocksAndChunksDoNotMeet) {
  EngineConfig config = greedy_config();
  config.block_size_frames = 5;
  expect_any_engine_can_go_on(config);
}

TEST(Snapshot, AnyEngineGoesOnWithUnlimitedHistoryThatRecycles) {
  EngineConfig config = greedy_config();
  config.num_left_chunks = -1;
  config.max_blocks_per_seq = 6;
  config.at_capacity = "recycle";
  config.max_num_blocks = 64;
  config.max_streams = 4;
  expect_any_engine_can_go_on(config);
}

TEST(Snapshot, AStreamWithoutAPastBeginsWhereItIsTold) {
  const std::vector<float> speech = clip("libri-06.flac");
  const auto engine = make_engine();
  const Said alone = recognize_alone(*engine, speech);
  const StreamKey key = engine->admit({}).value();
  must(engine->restore(key, {.sample = 50'000, .commands = 3, .events = 7, .segment = 2, .past = {}}));
  Said said;
  must(engine->feed(key, speech));
  must(engine->finish(key));
  run_until_idle(*engine, [&](const Update& update) {
    said.add(update);
    if (update.kind == Update::Kind::final) {
      EXPECT_EQ(update.event, 7);
    }
  });
  ASSERT_EQ(said.finals().size(), 1U);
  EXPECT_EQ(said.finals()[0].text, alone.finals()[0].text);
  EXPECT_EQ(said.finals()[0].segment, 2);
  EXPECT_EQ(said.finals()[0].start_sample, alone.finals()[0].start_sample + 50'000);
}

TEST(Snapshot, FitsTheModelThatWasLoadedAgain) {
  const auto load = [](const std::string& identity) {
    return std::make_unique<Engine>(load_bundled_model(identity), make_cpu_ops(), greedy_config());
  };
  const auto snapshot_of = [](Engine& engine) {
    const StreamKey source = engine.admit({}).value();
    must(engine.feed(source, clip("libri-06.flac")));
    run_until_idle(engine, [](const Update&) {});
    return engine.snapshot(source).value();
  };
  const auto again = load("its content");
  must(again->restore(again->admit({}).value(), snapshot_of(*load("its content"))));
  EXPECT_EQ(again->restore(again->admit({}).value(), snapshot_of(*load("other"))).error().code,
            "bad_snapshot");
  const auto nameless = load("");
  EXPECT_EQ(nameless->restore(nameless->admit({}).value(), snapshot_of(*load(""))).error().code,
            "bad_snapshot");
}

TEST(Snapshot, IsRefusedByAnEngineItDoesNotFit) {
  const auto engine = make_engine();
  const StreamKey source = engine->admit({}).value();
  must(engine->feed(source, clip("libri-06.flac")));
  run_until_idle(*engine, [](const Update&) {});
  const StreamSnapshot snapshot = engine->snapshot(source).value();

  const auto other_model = make_engine(config_of("rescore"));
  EXPECT_EQ(other_model->restore(other_model->admit({}).value(), snapshot).error().code, "bad_snapshot");

  EngineConfig shorter = greedy_config();
  shorter.num_left_chunks = 1;
  const auto other_history = make_engine(shorter);
  const StreamKey key = other_history->admit({}).value();
  EXPECT_EQ(other_history->restore(key, snapshot).error().code, "bad_snapshot");
  must(other_history->feed(key, clip("libri-06.flac")));
  EXPECT_EQ(other_history->restore(key, snapshot).error().code, "bad_snapshot");

  engine->release(source);
  EXPECT_FALSE(engine->snapshot(source));
}

int64_t bytes_of(const StreamSnapshot::Past& past) {
  return static_cast<int64_t>(past.decoder.size() + past.partial.size() * sizeof(CtcToken) +
                              sizeof(float) * (past.keys_values.size() + past.convolution.size() +
                                               past.features.size() + past.rescorable_frames.size()));
}

TEST(SnapshotSize, IsThatOfAStreamWithAllTheHistoryThatItMayHave) {
  for (const char* decoder : {"greedy", "prefix", "rescore"}) {
    SCOPED_TRACE(decoder);
    const EngineConfig config = config_of(decoder);
    const auto engine = make_engine(config);
    const StreamKey key = engine->admit({}).value();
    int64_t largest = 0;
    must(engine->feed(key, clip("libri-02.flac"), {}));
    while (engine->has_work()) {
      (void)engine->tick();
      largest = std::max(largest, bytes_of(*engine->snapshot(key)->past));
    }
    const CacheConfig cache = with_model_geometry(cache_limits(config), engine->model()).validated();
    const SnapshotSize size = snapshot_size(cache, engine->model(), config);
    const int64_t planned = *cache.max_logical_blocks() * size.block + size.stream;
    EXPECT_LE(largest, planned);
    // A segment that is rescored could have been longer.
    if (config.decoder != "rescore") {
      EXPECT_GT(largest, planned * 2 / 3);
    }
  }
}

}  // namespace
}  // namespace tutti
