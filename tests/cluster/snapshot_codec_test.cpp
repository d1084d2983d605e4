#include "cluster/snapshot_codec.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "cluster/wire.hpp"
#include "tests/cluster/random_frames.hpp"
#include "tests/config/random_bytes.hpp"
#include "tests/engine/engine_fixture.hpp"

namespace tutti {
namespace {

/// As another process gets it, whose engine has this model.
StreamSnapshot sent(const StreamSnapshot& snapshot, const std::shared_ptr<const ConformerCtc>& model) {
  const auto now = Clock::now();
  const auto bytes = wire::encode(wire::Restore{1, std::make_shared<const StreamSnapshot>(snapshot)}, now);
  return *std::get<wire::Restore>(wire::decode(bytes, now, model).value()).snapshot;
}

/// What a stream says of a clip, and a snapshot after each tick with the number of events said before it.
struct Life {
  Said said;
  std::vector<std::pair<StreamSnapshot, size_t>> moments;
};

Life live(const EngineConfig& config, std::span<const float> samples) {
  Life life;
  const auto engine = make_engine(config);
  const StreamKey key = engine->admit({}).value();
  must(engine->feed(key, samples));
  must(engine->finish(key));
  while (engine->has_work()) {
    for (const Update& update : engine->tick()) life.said.add(update);
    if (auto snapshot = engine->snapshot(key)) life.moments.emplace_back(*snapshot, life.said.events.size());
  }
  return life;
}

void expect_sent_snapshots_go_on(const EngineConfig& config) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::vector<float> samples = clip("libri-02.flac");
  const Life life = live(config, samples);
  ASSERT_GE(life.moments.size(), 5U);
  for (int i = 0; i < 3; ++i) {
    const auto& [snapshot, said_before] = life.moments[random() % life.moments.size()];
    const StreamSnapshot copy = sent(snapshot, snapshot.past->model);
    ASSERT_TRUE(same(copy, snapshot));
    const auto engine = make_engine(config);
    const StreamKey key = engine->admit({}).value();
    must(engine->restore(key, copy));
    must(engine->feed(key, std::span(samples).subspan(static_cast<size_t>(copy.sample))));
    must(engine->finish(key));
    Said rest;
    run_until_idle(*engine, [&](const Update& update) { rest.add(update); });
    const auto& all = life.said.events;
    const std::vector<Said::Event> expected(all.begin() + static_cast<std::ptrdiff_t>(said_before),
                                            all.end());
    EXPECT_EQ(rest.events, expected) << "from sample " << copy.sample;
    EXPECT_TRUE(rest.done);
  }
}

TEST(SnapshotCodec, AStreamGoesOnFromASentSnapshotToTheBit) {
  for (const char* decoder : {"greedy", "prefix", "rescore"}) {
    SCOPED_TRACE(decoder);
    EngineConfig config;
    config.decoder = decoder;
    expect_sent_snapshots_go_on(config);
  }
}

TEST(SnapshotCodec, WithoutTheModelItIsKeptAndCanBeSentOn) {
  const Life life = live(greedy_config(), clip("libri-06.flac"));
  const StreamSnapshot& snapshot = life.moments.back().first;
  const StreamSnapshot kept = sent(snapshot, nullptr);
  EXPECT_EQ(kept.past->model, nullptr);
  const auto engine = make_engine();
  EXPECT_EQ(engine->restore(engine->admit({}).value(), kept).error().code, "bad_snapshot");
  must(engine->restore(engine->admit({}).value(), sent(kept, snapshot.past->model)));
}

}  // namespace
}  // namespace tutti
