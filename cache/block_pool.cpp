#include "cache/block_pool.hpp"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>

namespace tutti {
namespace {

DType checked(DType dtype) {
  if (dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f8e4m3) return dtype;
  throw std::invalid_argument("BlockPool: keys and values are stored as f32, bf16 or fp8_e4m3");
}

int checked_scratch(const CacheConfig& c, int blocks) {
  if (blocks < 0) {
    throw std::invalid_argument(
        fmt::format("BlockPool: scratch_blocks = {}, expected a number from 0 on", blocks));
  }
  const int64_t frames = (int64_t{c.max_num_blocks} + blocks) * c.block_size_frames;
  if (frames > std::numeric_limits<int32_t>::max()) {
    throw std::invalid_argument(fmt::format("BlockPool: {} frames in {} blocks, expected at most {}", frames,
                                            c.max_num_blocks, std::numeric_limits<int32_t>::max()));
  }
  return blocks;
}

Shape pool_shape(const CacheConfig& c, int scratch_blocks) {
  return {c.num_layers, int64_t{c.max_num_blocks} + scratch_blocks, c.block_size_frames, c.n_kv_head,
          c.head_dim};
}

Shape scales_shape(const CacheConfig& c, int scratch_blocks) {
  return {c.num_layers, int64_t{c.max_num_blocks} + scratch_blocks, c.block_size_frames, c.n_kv_head};
}

}  // namespace

int64_t bytes_per_kv_block(const CacheConfig& config, DType dtype) {
  const int block = config.block_size_frames == 0 ? config.chunk_size : config.block_size_frames;
  const int64_t vectors = int64_t{2} * config.num_layers * block * config.n_kv_head;
  const size_t scale = dtype == DType::f8e4m3 ? size_of(DType::f32) : 0;
  return vectors * static_cast<int64_t>(static_cast<size_t>(config.head_dim) * size_of(dtype) + scale);
}

BlockPool::BlockPool(const CacheConfig& config, Ops& ops, DType dtype, int scratch_blocks)
    : ops_(&ops),
      config_(config.validated()),
      scratch_blocks_(checked_scratch(config_, scratch_blocks)),
      k_pool_(ops.allocate(checked(dtype), pool_shape(config_, scratch_blocks))),
      v_pool_(ops.allocate(dtype, pool_shape(config_, scratch_blocks))),
      is_free_(static_cast<size_t>(config_.max_num_blocks), true) {
  if (dtype == DType::f8e4m3) {
    k_scales_ = ops.allocate(DType::f32, scales_shape(config_, scratch_blocks));
    v_scales_ = ops.allocate(DType::f32, scales_shape(config_, scratch_blocks));
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

void BlockPool::zero(std::span<const int32_t> blocks) {
  constexpr int block_axis = 1;
  ops_->index_fill(k_pool_, block_axis, blocks, 0);
  ops_->index_fill(v_pool_, block_axis, blocks, 0);
  if (dtype() != DType::f8e4m3) return;
  ops_->index_fill(k_scales_, block_axis, blocks, 0);
  ops_->index_fill(v_scales_, block_axis, blocks, 0);
}

int64_t BlockPool::block_floats(int64_t blocks) const {
  return 2 * blocks * config_.num_layers * config_.block_size_frames * config_.n_kv_head * config_.head_dim;
}

void BlockPool::require_floats(const char* where, size_t blocks, int64_t floats) const {
  const int64_t expected = block_floats(static_cast<int64_t>(blocks));
  if (dtype() == DType::f32 && floats == expected) return;
  throw std::invalid_argument(fmt::format("{}: {} floats for {} blocks, expected {} of a pool in f32", where,
                                          floats, blocks, expected));
}

void BlockPool::gather(std::span<const int32_t> blocks, const TensorView& out) const {
  require_floats("BlockPool::gather", blocks.size(), out.shape.elements());
  if (blocks.empty()) return;
  constexpr int block_axis = 1;
  const Shape shape{config_.num_layers, static_cast<int64_t>(blocks.size()), config_.block_size_frames,
                    config_.n_kv_head, config_.head_dim};
  const TensorView keys{out.data, DType::f32, shape};
  const TensorView values{out.data + keys.bytes(), DType::f32, shape};
  ops_->index_select(k_pool_, block_axis, blocks, keys);
  ops_->index_select(v_pool_, block_axis, blocks, values);
}

void BlockPool::write(std::span<const int32_t> blocks, std::span<const float> values) {
  require_floats("BlockPool::write", blocks.size(), std::ssize(values));
  std::vector<Writing> writings;
  writings.reserve(2 * static_cast<size_t>(config_.num_layers) * blocks.size());
  const auto* from = reinterpret_cast<const std::byte*>(values.data());
  for (const Tensor* const pool : {&k_pool_, &v_pool_}) {
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      for (const int32_t block : blocks) {
        writings.push_back({from, pool->view()[layer][block]});
        from += writings.back().to.bytes();
      }
    }
  }
  ops_->write(writings);
}

int32_t BlockPool::scratch_block(int i) const {
  if (i < 0 || i >= scratch_blocks_) {
    throw std::out_of_range(fmt::format("BlockPool::scratch_block: scratch block {}, expected one of [0, {})",
                                        i, scratch_blocks_));
  }
  return num_blocks() + i;
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
  const int blocks = num_blocks() + scratch_blocks_;
  if (block < 0 || block >= blocks) {
    throw std::out_of_range(
        fmt::format("BlockPool::get_kv_block_view: block {}, expected one of [0, {})", block, blocks));
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
