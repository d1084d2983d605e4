// The caches promise to allocate nothing after construction. Replacing the global operator new is the one way
// to see it from outside; only the thread that counts is counted.

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <new>

#include "cache/decoder_kv.hpp"
#include "cache/dense_decoder_kv.hpp"
#include "cache/stream_cache_view.hpp"
#include "cache/stream_slot_pool.hpp"
#include "tests/cache/fake_decoder.hpp"
#include "tests/cache/host_ops.hpp"

namespace {
thread_local int64_t allocations = 0;
}  // namespace

void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
// Not inlined: seeing free() without the allocation behind new, the compiler would warn of a mismatch.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace tutti {
namespace {

TEST(Caches, AllocateNoMemoryAfterConstruction) {
  constexpr int max_streams = 8;
  constexpr CacheConfig config{.num_layers = 1,
                               .n_kv_head = 1,
                               .head_dim = 2,
                               .hidden_dim = 2,
                               .kernel_size = 3,
                               .chunk_size = 6,
                               .num_left_chunks = 2,
                               .block_size_frames = 4,
                               .max_streams = max_streams};
  HostOps ops;
  FakeDecoder::Counts counts;
  BlockPool pool(config, ops);
  AttentionCacheManager attention(pool, config);
  CnnCacheManager cnn(config, ops);
  CtcStateCacheManager ctc(std::make_unique<FakeDecoder>(counts), max_streams);
  StreamSlotPool slots(max_streams);
  PagedKvCache batch(pool, max_streams, attention.table_width());
  SlotStateCache states({{.name = "memory", .shape = {2, 3}, .slot_axis = 1},
                         {.name = "prompt", .shape = {}, .persistent = true, .dtype = DType::i32}},
                        max_streams, 1, ops);
  const Tensor memory = host_tensor(DType::f32, {2, max_streams + 1, 3});
  std::array<int32_t, max_streams + 1> lane_slots{};

  const int64_t before = allocations;
  StreamId next_id = 1;
  for (int generation = 0; generation < 20; ++generation) {
    std::array<StreamId, max_streams> ids{};
    std::array<int, max_streams> stream_places{};
    std::array<int, max_streams> frames{};
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = next_id += 1'000'003;
      stream_places[i] = slots.allocate().value();
      StreamCacheView(ids[i], stream_places[i], attention, cnn, ctc).allocate();
      states.allocate_stream(stream_places[i]);
      states.fill_slot("prompt", stream_places[i], 3);
      lane_slots[i] = stream_places[i];
    }
    lane_slots.back() = states.scratch_slot();
    for (int chunk = 0; chunk < 10; ++chunk) {
      for (size_t i = 0; i < ids.size(); ++i) frames[i] = 1 + (chunk + static_cast<int>(i)) % 6;
      attention.prepare_chunks_batched(ids, frames);
      attention.fill_batch(ids, batch);
      (void)batch.layer(0);
      for (size_t i = 0; i < ids.size(); ++i) {
        attention.commit_chunk_paged(ids[i], frames[i] - chunk % 2);
        ctc.get_decoder(ids[i]).decode_chunk(OneFrame{1}.frames());
      }
      attention.reset_stream(ids[static_cast<size_t>(chunk) % ids.size()]);
      const SlotStateView view = states.lanes(lane_slots)["memory"];
      view.gather(memory);
      view.scatter(memory);
      states.reset_stream(stream_places[static_cast<size_t>(chunk) % ids.size()]);
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      StreamCacheView(ids[i], stream_places[i], attention, cnn, ctc).free();
      states.free_stream(stream_places[i]);
      slots.free(stream_places[i]);
    }
  }
  EXPECT_EQ(allocations - before, 0);
  EXPECT_GT(allocations, 0) << "the counter counts";
}

TEST(DecoderCaches, AllocateNoMemoryAfterConstruction) {
  constexpr DecoderKvConfig config{.num_layers = 2,
                                   .n_kv_head = 1,
                                   .head_dim = 2,
                                   .page_tokens = 4,
                                   .max_rows = 6,
                                   .max_row_tokens = 20,
                                   .format = DType::f8e4m3};
  HostOps ops;
  DecoderKvCacheManager rows(config, ops);
  PagedDecoderKv batch(rows.pool(), config.max_rows, rows.table_width());
  DenseDecoderKv group(config, ops);
  DenseDecoderKv other(config, ops);

  const int64_t before = allocations;
  StreamId next_id = 1;
  for (int generation = 0; generation < 20; ++generation) {
    std::array<StreamId, 4> ids{};
    for (StreamId& id : ids) {
      id = next_id += 1'000'003;
      if (rows.can_admit(std::array{20})) rows.allocate_row(id, 20, 3);
    }
    group.reset(2);
    other.reset(3);
    constexpr std::array ones{1, 1, 1, 1, 1, 1};  // a step of max_rows
    for (int step = 0; step < 15; ++step) {
      rows.prepare_step(ids, std::span(ones).first(ids.size()));
      rows.fill_batch(ids, batch);
      (void)batch.layer(1);
      for (const StreamId id : ids) rows.commit_step(id, 1);
      group.prepare_step(std::span(ones).first(static_cast<size_t>(group.lanes())));
      group.commit_step(std::span(ones).first(static_cast<size_t>(group.lanes())));
      group.select(std::array<int32_t, 3>{1, 1, 0});
      if (step == 9) group.merge(other);
    }
    for (const StreamId id : ids) rows.free_row(id);
  }
  EXPECT_EQ(allocations - before, 0);
}

/// What `tutti bench cache` measures, and the other histories and padding.
TEST(AttentionCache, TicksOf64LanesAllocateNothing) {
  constexpr int lanes = 64;
  CacheConfig window{.num_layers = 1,
                     .n_kv_head = 1,
                     .head_dim = 1,
                     .hidden_dim = 1,
                     .max_blocks_per_seq = 8,
                     .max_streams = lanes,
                     .max_batch_size = lanes};
  CacheConfig prefilled = window;
  prefilled.prefill_kv_window = true;
  CacheConfig recycled = window;
  recycled.num_left_chunks = -1;
  recycled.recycle_at_capacity = true;
  std::array<StreamId, lanes> ids{};
  for (int i = 0; i < lanes; ++i) ids[static_cast<size_t>(i)] = (StreamId{1} << 32) | i;
  std::array<int, lanes> frames{};
  frames.fill(16);
  for (const CacheConfig& config : {window, prefilled, recycled}) {
    HostOps ops;
    BlockPool pool(config, ops, DType::f32, 1);
    AttentionCacheManager attention(pool, config, 1);
    PagedKvCache batch(pool, lanes + 8, attention.table_width());
    const int64_t before = allocations;
    for (const StreamId id : ids) attention.allocate_stream(id);
    for (int tick = 0; tick < 20; ++tick) {
      attention.prepare_chunks_batched(ids, frames);
      attention.fill_batch(ids, batch, 8);
      for (const StreamId id : ids) {
        (void)attention.get_paged_state_views(id);
        attention.commit_chunk_paged(id, 16);
      }
      (void)attention.cached_frames(ids);
    }
    EXPECT_EQ(allocations - before, 0);
  }
}

}  // namespace
}  // namespace tutti
