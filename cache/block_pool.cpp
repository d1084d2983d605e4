#include "cache/block_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace tutti {
namespace {

DType checked(DType dtype) {
  if (dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f8e4m3) return dtype;
  throw std::invalid_argument("BlockPool: keys and values are stored as f32, bf16 or fp8_e4m3");
}

Shape pool_shape(const CacheConfig& c) {
  return {c.num_layers, c.max_num_blocks, c.block_size_frames, c.n_kv_head, c.head_dim};
}

Shape scales_shape(const CacheConfig& c) {
  return {c.num_layers, c.max_num_blocks, c.block_size_frames, c.n_kv_head};
}

}  // namespace

int64_t bytes_per_kv_block(const CacheConfig& config, DType dtype) {
  const int block = config.block_size_frames == 0 ? config.chunk_size : config.block_size_frames;
  const int64_t vectors = int64_t{2} * config.num_layers * block * config.n_kv_head;
  const size_t scale = dtype == DType::f8e4m3 ? size_of(DType::f32) : 0;
  return vectors * static_cast<int64_t>(static_cast<size_t>(config.head_dim) * size_of(dtype) + scale);
}

BlockPool::BlockPool(const CacheConfig& config, Ops& ops, DType dtype)
    : config_(config.validated()),
      k_pool_(ops.allocate(checked(dtype), pool_shape(config_))),
      v_pool_(ops.allocate(dtype, pool_shape(config_))),
      is_free_(static_cast<size_t>(config_.max_num_blocks), true) {
  if (dtype == DType::f8e4m3) {
    k_scales_ = ops.allocate(DType::f32, scales_shape(config_));
    v_scales_ = ops.allocate(DType::f32, scales_shape(config_));
  }
  free_.reserve(is_free_.size());
  for (int32_t block = num_blocks() - 1; block >= 0; --block) free_.push_back(block);
}

void BlockPool::allocate(std::span<int32_t> blocks) {
  if (blocks.size() > free_.size()) {
    throw PoolExhausted(fmt::format("BlockPool::allocate: requested {} blocks, {} of {} are free",
                                    blocks.size(), num_free(), num_blocks()));
  }
  for (int32_t& block : blocks) {
    block = free_.back();
    free_.pop_back();
    is_free_[static_cast<size_t>(block)] = false;
  }
}

void BlockPool::free(std::span<const int32_t> blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const int32_t block = blocks[i];
    if (owns(block) && !is_free_[static_cast<size_t>(block)]) {
      is_free_[static_cast<size_t>(block)] = true;
      continue;
    }
    for (const int32_t marked : blocks.first(i)) is_free_[static_cast<size_t>(marked)] = false;
    throw std::invalid_argument(
        owns(block) ? fmt::format("BlockPool::free: block {} is already free", block)
                    : fmt::format("BlockPool::free: block {}, expected one of [0, {})", block, num_blocks()));
  }
  free_.insert(free_.end(), blocks.rbegin(), blocks.rend());
}

BlockPool::KvView BlockPool::get_kv_view(int layer) const {
  if (layer < 0 || layer >= config_.num_layers) {
    throw std::out_of_range(
        fmt::format("BlockPool::get_kv_view: layer {}, expected one of [0, {})", layer, config_.num_layers));
  }
  KvView view{k_pool_.view()[layer], v_pool_.view()[layer]};
  if (dtype() == DType::f8e4m3) {
    view.k_scales = k_scales_.view()[layer];
    view.v_scales = v_scales_.view()[layer];
  }
  return view;
}

BlockPool::KvView BlockPool::get_kv_block_view(int layer, int32_t block) const {
  if (!owns(block)) {
    throw std::out_of_range(
        fmt::format("BlockPool::get_kv_block_view: block {}, expected one of [0, {})", block, num_blocks()));
  }
  const KvView view = get_kv_view(layer);
  KvView one{view.k[block], view.v[block]};
  if (dtype() == DType::f8e4m3) {
    one.k_scales = view.k_scales[block];
    one.v_scales = view.v_scales[block];
  }
  return one;
}

}  // namespace tutti
