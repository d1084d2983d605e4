#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "engine/slot_runtime.hpp"
#include "engine_fixture.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/cpu/library_scope.hpp"
#include "recurrent_encoder.hpp"

// Counts every heap allocation of this program, those inside oneDNN's execution separately.
namespace {

struct Allocations {
  bool counting = false;
  int ours = 0;
  int library = 0;
};
thread_local constinit Allocations allocations;

void count() {
  if (!allocations.counting) return;
  ++(tutti::cpu::LibraryScope::active() ? allocations.library : allocations.ours);
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t size) {
  count();
  return __libc_malloc(size);
}
void* calloc(size_t n, size_t size) {
  count();
  return __libc_calloc(n, size);
}
void* realloc(void* p, size_t size) {
  count();
  return __libc_realloc(p, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  count();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** p, size_t alignment, size_t size) {
  count();
  *p = __libc_memalign(alignment, size);
  return *p == nullptr ? 12 : 0;
}
}

namespace tutti {
namespace {

TEST(Allocation, TheCounterSeesAnAllocation) {
  allocations = {.counting = true};
  void* const p = ::operator new(100);
  allocations.counting = false;
  ::operator delete(p);
  EXPECT_EQ(allocations.ours, 1);
}

class SteadyState : public testing::TestWithParam<const char*> {
 protected:
  static void expect_no_allocations(const EngineConfig& config);
};

void SteadyState::expect_no_allocations(const EngineConfig& config) {
  const auto engine = make_engine(config);
  const std::vector<float> samples = clip("libri-02.flac");
  std::vector<StreamKey> keys;
  for (int i = 0; i < 12; ++i) keys.push_back(engine->admit({.voice_events = true, .endpoint = {}}).value());
  const auto speak = [&](size_t begin, size_t count) {
    size_t updates = 0;
    for (const StreamKey key : keys) must(engine->feed(key, std::span(samples).subspan(begin, count)));
    while (engine->has_work()) updates += engine->tick().size();
    return updates;
  };
  speak(0, 20000);  // everyone has history
  allocations = {.counting = true};
  const size_t updates = speak(20000, 70000);
  allocations.counting = false;
  EXPECT_GT(updates, 12U * 5);
  EXPECT_EQ(allocations.ours, 0);
  RecordProperty("onednn_allocations", allocations.library);
}

TEST_P(SteadyState, TicksAllocateNothing) {
  EngineConfig config;
  config.decoder = GetParam();
  config.max_batch_size = 8;
  expect_no_allocations(config);
}

TEST_P(SteadyState, TicksOfStreamsThatRecycleAllocateNothing) {
  EngineConfig config;
  config.decoder = GetParam();
  config.max_batch_size = 8;
  config.max_streams = 12;
  config.num_left_chunks = -1;
  config.max_blocks_per_seq = 64;
  config.max_num_blocks = 12 * 4;  // passed by all while allocations are counted
  config.at_capacity = "recycle";
  expect_no_allocations(config);
}

TEST(RescoringState, TicksThatRescoreFinalsAllocateNothing) {
  EngineConfig config;
  config.decoder = "rescore";
  config.max_batch_size = 8;
  const auto engine = make_engine(config);
  const std::vector<float> samples = clip("libri-02.flac");
  std::vector<StreamKey> keys;
  for (int i = 0; i < 12; ++i) keys.push_back(engine->admit({}).value());
  const auto speak = [&](size_t begin, size_t count) {
    for (const StreamKey key : keys) must(engine->feed(key, std::span(samples).subspan(begin, count)));
    for (const StreamKey key : keys) must(engine->finalize(key));
    while (engine->has_work()) (void)engine->tick();
  };
  // A segment like those that follow, so that what finals say has had room once.
  for (int i = 0; i < 3; ++i) speak(20000, 30000);
  const int64_t before = engine->stats().rescored_segments;
  allocations = {.counting = true};
  speak(20000, 30000);
  allocations.counting = false;
  EXPECT_EQ(engine->stats().rescored_segments - before, 12);
  EXPECT_EQ(allocations.ours, 0);
}

INSTANTIATE_TEST_SUITE_P(Decoders, SteadyState, testing::Values("greedy", "prefix"));

TEST(SlotRuntime, TicksAndAdmissionsAllocateNothing) {
  auto ops = make_cpu_ops(cpu::GemmChoice::panel);
  auto encoder = std::make_shared<const RecurrentEncoder>(*ops, 0);
  SlotRuntime runtime(std::move(encoder), std::move(ops), 4, 4);
  const Tensor window = host_tensor(DType::f32, {RecurrentEncoder::window, RecurrentEncoder::mel});
  std::array<SlotLane, 3> lanes;
  const std::array french{StreamConditioning{"prompt", 2}};
  allocations = {.counting = true};
  for (int turn = 0; turn < 3; ++turn) {
    for (int slot = 0; slot < 3; ++slot) {
      runtime.allocate_stream(slot, french);
      lanes[static_cast<size_t>(slot)] = {
          .slot = slot, .features = window.view().slice(0, RecurrentEncoder::window - slot)};
    }
    for (int tick = 0; tick < 4; ++tick) (void)runtime.forward(std::span(lanes).first(1 + tick % 3));
    for (int slot = 0; slot < 3; ++slot) {
      runtime.reset_stream(slot);
      runtime.free_stream(slot);
    }
  }
  allocations.counting = false;
  EXPECT_EQ(allocations.ours, 0);
  EXPECT_EQ(allocations.library, 0);
}

}  // namespace
}  // namespace tutti
