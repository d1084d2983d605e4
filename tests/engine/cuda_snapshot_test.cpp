// Snapshots that leave a GPU while it goes on, and enter another one.
#include <gtest/gtest.h>

#include <utility>

#include "gpu/cuda/staging.hpp"
#include "tests/engine/cuda_fixture.hpp"

namespace tutti {
namespace {

bool operator==(const AttentionCacheManager::History& a, const AttentionCacheManager::History& b) {
  return a.committed == b.committed && a.cached == b.cached && a.begin == b.begin;
}

/// To the bit, of what a device holds and of where the stream is.
bool is_same(const StreamSnapshot& a, const StreamSnapshot& b) {
  return a.sample == b.sample && a.commands == b.commands && a.events == b.events && a.segment == b.segment &&
         a.past->history == b.past->history && a.past->keys_values == b.past->keys_values &&
         a.past->convolution == b.past->convolution && a.past->features == b.past->features &&
         a.past->rescorable_frames == b.past->rescorable_frames && a.past->decoder == b.past->decoder &&
         a.past->position == b.past->position;
}

using Snapshots = std::vector<StreamSnapshot>;

class CudaSnapshot : public testing::TestWithParam<Gpus> {
 protected:
  void SetUp() override {
    if (!GetParam().absent.empty()) GTEST_SKIP() << GetParam().absent;
    ops_ = make_cuda_ops(*GetParam().api, 0);
    model_ = load("conformer-bn-tiny", *ops_, config_, "tiny");
  }

  std::unique_ptr<Engine> engine(const cuda::PluginApi& api = *GetParam().api) {
    return std::make_unique<Engine>(model_, make_cuda_ops(api, 0), config_);
  }

  /// On another GPU, if there is one, with a model of its own.
  std::unique_ptr<Engine> twin() {
    const int gpu = GetParam().count > 1 ? 1 : 0;
    const auto ops = make_cuda_ops(*GetParam().api, gpu);
    const auto model = load("conformer-bn-tiny", *ops, config_, "tiny");
    return std::make_unique<Engine>(model, make_cuda_ops(*GetParam().api, gpu), config_);
  }

  static std::span<const float> chunk(size_t i) {
    static const std::vector<float> samples = speech(16000, 12 * chunk_samples + 1000);
    return std::span(samples).subspan(i * chunk_samples + (i == 0 ? 0 : 1000),
                                      chunk_samples + (i == 0 ? 1000 : 0));
  }

  static void tick(Engine& engine, Said* said = nullptr) {
    run_until_idle(engine, [said](const Update& update) {
      if (said != nullptr) said->add(update);
    });
  }

  static void collect(Engine& engine, Snapshots& into) {
    while (auto taken = engine.next_snapshot()) into.push_back(std::move(taken->snapshot));
  }

  static void collect_all(Engine& engine, Snapshots& into) {
    while (engine.stats().snapshots_under_way > 0) collect(engine, into);
  }

  /// So many after each of `chunks` ticks, taken while the stream goes on.
  Snapshots begun_snapshots(Engine& engine, size_t chunks, int times) {
    const StreamKey key = engine.admit({}).value();
    Snapshots all;
    for (size_t i = 0; i < chunks; ++i) {
      must(engine.feed(key, chunk(i)));
      tick(engine);
      for (int k = 0; k < times; ++k) EXPECT_TRUE(engine.begin_snapshot(key));
      if (times == 1) collect(engine, all);
    }
    collect_all(engine, all);
    return all;
  }

  /// The same, each waited for.
  Snapshots whole_snapshots(size_t chunks) {
    const auto waiting = engine();
    const StreamKey key = waiting->admit({}).value();
    Snapshots all;
    for (size_t i = 0; i < chunks; ++i) {
      must(waiting->feed(key, chunk(i)));
      tick(*waiting);
      all.push_back(waiting->snapshot(key).value());
    }
    return all;
  }

  /// How many of the snapshots that were taken several times are not what the whole ones are.
  static int differing(const Snapshots& some, const Snapshots& whole) {
    const size_t times = some.size() / whole.size();
    EXPECT_EQ(some.size(), times * whole.size());
    int count = 0;
    for (size_t i = 0; i < some.size(); ++i) count += is_same(some[i], whole[i / times]) ? 0 : 1;
    return count;
  }

  static constexpr size_t chunk_samples = 2560;

  EngineConfig config_ = short_chunks("prefix");
  std::unique_ptr<Ops> ops_;
  std::shared_ptr<const ConformerCtc> model_;
};

/// What a GPU does not do when it is asked to.
class FaultyCudaSnapshot : public CudaSnapshot {};

std::string name_of(const testing::TestParamInfo<Gpus>& gpus) { return gpus.param.name; }
INSTANTIATE_TEST_SUITE_P(Gpus, CudaSnapshot, testing::ValuesIn(all_gpus()), name_of);
INSTANTIATE_TEST_SUITE_P(Gpus, FaultyCudaSnapshot, testing::Values(gpus_on_host()), name_of);

TEST_P(CudaSnapshot, HoldsTheStreamAsItWasThoughTheDeviceGoesOn) {
  const auto going_on = engine();
  EXPECT_EQ(differing(begun_snapshots(*going_on, 4, 1), whole_snapshots(4)), 0);
}

TEST_P(FaultyCudaSnapshot, IsSeenToBeWrongWhereItsCopyDoesNotFollowTheTick) {
  static const cuda::PluginApi broken = [] {
    cuda::PluginApi api = cuda::host::api();
    api.follow = [](cuda::Queue*, cuda::Event*) { return 0; };
    return api;
  }();
  const auto unordered = engine(broken);
  EXPECT_GT(differing(begun_snapshots(*unordered, 2, 8), whole_snapshots(2)), 0);
}

TEST_P(CudaSnapshot, CostsATickNeitherAWaitNorAnAllocation) {
  const auto counted = engine();
  const StreamKey key = counted->admit({}).value();
  const DeviceUse before = counted->stats().device;
  Snapshots all;
  for (size_t i = 0; i < 4; ++i) {
    must(counted->feed(key, chunk(i)));
    tick(*counted);
    EXPECT_TRUE(counted->begin_snapshot(key));
    collect(*counted, all);
  }
  collect_all(*counted, all);
  must(counted->feed(key, chunk(4)));
  tick(*counted);
  EXPECT_EQ(all.size(), 4U);
  EXPECT_EQ(counted->stats().device.waits - before.waits, counted->stats().ticks);
  EXPECT_EQ(counted->stats().device.allocations, before.allocations);
}

TEST_P(CudaSnapshot, LetsAnotherGpuGoOnWithTheStreamToTheBit) {
  constexpr size_t chunks = 4;
  const auto first = engine();
  const StreamKey key = first->admit({}).value();
  Said whole;
  Snapshots snapshots;
  std::vector<size_t> events;
  for (size_t i = 0; i < chunks; ++i) {
    must(first->feed(key, chunk(i)));
    tick(*first, &whole);
    EXPECT_TRUE(first->begin_snapshot(key));
    events.push_back(whole.events.size());
  }
  collect_all(*first, snapshots);
  must(first->finish(key));
  tick(*first, &whole);
  const auto second = twin();
  for (const size_t i : {size_t{0}, size_t{2}}) {
    const StreamKey moved = second->admit({}).value();
    const DeviceUse before = second->stats().device;
    const int64_t ticks = second->stats().ticks;
    must(second->restore(moved, snapshots[i]));
    auto fed = static_cast<size_t>(snapshots[i].sample);
    const std::span<const float> all(chunk(0).data(), chunk(chunks - 1).data() + chunk_samples);
    must(second->feed(moved, all.subspan(fed)));
    Said rest;
    tick(*second, &rest);
    EXPECT_EQ(second->stats().device.waits - before.waits, second->stats().ticks - ticks);
    EXPECT_EQ(second->stats().device.allocations, before.allocations);
    must(second->finish(moved));
    tick(*second, &rest);
    EXPECT_EQ(rest.events,
              std::vector(whole.events.begin() + static_cast<std::ptrdiff_t>(events[i]), whole.events.end()))
        << "after chunk " << i;
    EXPECT_TRUE(rest.done);
  }
}

TEST_P(CudaSnapshot, IsPostponedWhileAsManyAsMayBeAreUnderWay) {
  const auto full = engine();
  const StreamKey key = full->admit({}).value();
  must(full->feed(key, chunk(0)));
  tick(*full);
  int begun = 0;
  while (full->begin_snapshot(key)) ++begun;
  EXPECT_GE(begun, 8);
  EXPECT_EQ(full->stats().snapshots_under_way, begun);
  EXPECT_GT(full->stats().snapshot_bytes_under_way, 0);
  Snapshots all;
  while (all.empty()) collect(*full, all);
  EXPECT_TRUE(full->begin_snapshot(key));
  collect_all(*full, all);
  EXPECT_EQ(static_cast<int>(all.size()), begun + 1);
  EXPECT_EQ(full->stats().snapshots_under_way, 0);
  EXPECT_EQ(full->stats().snapshot_bytes_under_way, 0);
  for (const StreamSnapshot& snapshot : all) EXPECT_TRUE(is_same(snapshot, all[0]));
}

TEST_P(CudaSnapshot, ComesThoughItsStreamHasEndedAndAnotherHasItsSlot) {
  const Snapshots expected = whole_snapshots(1);
  const auto reused = engine();
  const StreamKey old = reused->admit({}).value();
  must(reused->feed(old, chunk(0)));
  tick(*reused);
  EXPECT_TRUE(reused->begin_snapshot(old));
  reused->release(old);
  EXPECT_FALSE(reused->begin_snapshot(old));
  const StreamKey next = reused->admit({}).value();
  EXPECT_EQ(next.slot, old.slot);
  must(reused->feed(next, chunk(3)));
  tick(*reused);
  std::optional<Engine::TakenSnapshot> taken;
  while (!taken) taken = reused->next_snapshot();
  EXPECT_EQ(taken->key, old);
  EXPECT_TRUE(is_same(taken->snapshot, expected[0]));
}

TEST_P(CudaSnapshot, MayBeUnderWayWhenItsEngineEnds) {
  const auto ended = engine();
  const StreamKey key = ended->admit({}).value();
  must(ended->feed(key, chunk(0)));
  tick(*ended);
  EXPECT_TRUE(ended->begin_snapshot(key));
}

TEST_P(FaultyCudaSnapshot, IsNotComingAnyMoreWhenItsGpuIsLost) {
  auto lost = engine();
  const StreamKey key = lost->admit({}).value();
  must(lost->feed(key, chunk(0)));
  tick(*lost);
  EXPECT_TRUE(lost->begin_snapshot(key));
  cuda::host::lose_device(0);
  EXPECT_THROW(static_cast<void>(lost->begin_snapshot(key)), cuda::DeviceError);
  must(lost->feed(key, chunk(1)));
  EXPECT_THROW(static_cast<void>(lost->tick()), cuda::DeviceError);
  lost.reset();
  cuda::host::find_devices();
}

}  // namespace
}  // namespace tutti
