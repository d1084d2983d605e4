#include "cache/dense_kv.hpp"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace tutti {
namespace {

/// One head's K (or V) of one frame in the blocks, and in the packed form.
struct Place {
  std::byte* in_blocks;
  std::byte* in_packed;
};

/// Calls `copy(place, bytes)` for every head, frame and half of every layer.
template <class Copy>
void for_each_vector(const BlockPool& pool, std::span<const int32_t> blocks, int first,
                     const TensorView& packed, Copy copy) {
  const CacheConfig& config = pool.config();
  const auto bytes = static_cast<size_t>(config.head_dim) * size_of(packed.dtype);
  for (int layer = 0; layer < config.num_layers; ++layer) {
    const BlockPool::KvView kv = pool.get_kv_view(layer);
    for (int64_t t = 0; t < packed.shape[2]; ++t) {
      const int64_t frame = first + t;
      const int32_t block = blocks[static_cast<size_t>(frame / config.block_size_frames)];
      const int64_t offset = frame % config.block_size_frames;
      for (int head = 0; head < config.n_kv_head; ++head) {
        std::byte* const both = packed[layer][head][t].data;
        copy(Place{kv.k[block][offset][head].data, both}, bytes);
        copy(Place{kv.v[block][offset][head].data, both + bytes}, bytes);
      }
    }
  }
}

Shape packed_shape(const CacheConfig& config, int64_t frames) {
  return {config.num_layers, config.n_kv_head, frames, config.kv_last_dim()};
}

}  // namespace

int require_packed_chunk(const char* where, const BlockPool& pool, const TensorView& packed) {
  const int64_t frames = packed.shape.rank() == 4 ? packed.shape[2] : 1;
  const Shape expected = packed_shape(pool.config(), frames);
  if (packed.shape != expected) {
    throw std::invalid_argument(
        fmt::format("{}: packed K and V of shape {}, expected {} (layers, heads, frames, K and V)", where,
                    to_string(packed.shape), to_string(expected)));
  }
  if (packed.dtype != pool.dtype()) {
    throw std::invalid_argument(fmt::format("{}: packed K and V of another type than the pool's", where));
  }
  return static_cast<int>(frames);
}

void scatter_kv_frames(const BlockPool& pool, std::span<const int32_t> blocks, int first,
                       const TensorView& packed) {
  for_each_vector(pool, blocks, first, packed, [](const Place& place, size_t bytes) {
    std::memcpy(place.in_blocks, place.in_packed, bytes);
  });
}

Tensor gather_kv_blocks(const BlockPool& pool, std::span<const int32_t> blocks, int first, int frames) {
  Tensor packed = host_tensor(pool.dtype(), packed_shape(pool.config(), frames));
  for_each_vector(pool, blocks, first, packed, [](const Place& place, size_t bytes) {
    std::memcpy(place.in_packed, place.in_blocks, bytes);
  });
  return packed;
}

}  // namespace tutti
