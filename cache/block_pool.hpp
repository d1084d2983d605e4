#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/errors.hpp"
#include "config/cache_config.hpp"
#include "gpu/ops.hpp"

namespace tutti {

/// Bytes one physical block takes over all layers: 2 (K and V) x layers x block x heads x head_dim x element,
/// and in f8e4m3 as many vectors' scales of 4 bytes.
[[nodiscard]] int64_t bytes_per_kv_block(const CacheConfig& config, DType dtype);

/// The preallocated K and V of every stream of one device, (layers, blocks, block_size, n_kv_head, head_dim)
/// each, and the list of blocks nobody owns. Only its owner thread touches it. In f8e4m3 each vector of
/// head_dim values has an f32 scale, in (layers, blocks, block_size, n_kv_head) of their own.
///
/// The list is a stack: the blocks freed last are handed out first, while they are still in the CPU's cache.
/// A block keeps what its last owner wrote; a reader goes by cache_seqlens and never looks past it.
///
/// Scratch blocks lie past the others and are nobody's: lanes that only pad a batch write there.
class BlockPool {
 public:
  /// `ops` outlives the pool.
  /// Throws std::invalid_argument for a config that does not validate, a dtype that is not f32, bf16 or
  /// f8e4m3, a negative number of scratch blocks, or more frames than kernels have numbers for.
  BlockPool(const CacheConfig& config, Ops& ops, DType dtype = DType::f32, int scratch_blocks = 0);

  /// Fills `blocks`. Throws PoolExhausted (requested vs free) and changes nothing when there are not enough.
  void allocate(std::span<int32_t> blocks);
  /// Takes them back such that allocating as many again returns them in the same order.
  /// Throws std::invalid_argument for a block that is out of range, scratch or already free, and then takes
  /// back none.
  void free(std::span<const int32_t> blocks);
  /// Zeroes K and V of every layer, and their scales. Of blocks that the pool has.
  void zero(std::span<const int32_t> blocks);

  /// Floats that gather and write move for so many blocks.
  [[nodiscard]] int64_t block_floats(int64_t blocks) const;
  /// Copies K and V of `blocks` over all layers to `out`, (block_floats) f32 on the device: K before V, each
  /// (layers, blocks, block_size, n_kv_head, head_dim). Of a pool in f32; throws std::invalid_argument for
  /// another size or type.
  void gather(std::span<const int32_t> blocks, const TensorView& out) const;
  /// Writes from host memory what gather reads. Throws as gather.
  void write(std::span<const int32_t> blocks, std::span<const float> values);

  /// Without the scratch blocks.
  [[nodiscard]] int num_blocks() const { return config_.max_num_blocks; }
  [[nodiscard]] int num_free() const { return static_cast<int>(free_.size()); }
  /// As validated.
  [[nodiscard]] const CacheConfig& config() const { return config_; }
  [[nodiscard]] DType dtype() const { return k_pool_.view().dtype; }
  [[nodiscard]] int scratch_blocks() const { return scratch_blocks_; }
  /// Throws std::out_of_range for one that the pool does not have.
  [[nodiscard]] int32_t scratch_block(int i) const;

  struct KvView {
    TensorView k;
    TensorView v;
    TensorView k_scales{};  ///< as K without its last axis; empty but in f8e4m3
    TensorView v_scales{};
  };
  /// (blocks + scratch blocks, block_size, n_kv_head, head_dim). Throws std::out_of_range for a layer the
  /// model does not have.
  [[nodiscard]] KvView get_kv_view(int layer) const;
  /// (block_size, n_kv_head, head_dim). Throws std::out_of_range also for a block the pool does not have.
  [[nodiscard]] KvView get_kv_block_view(int layer, int32_t block) const;

 private:
  void require_floats(const char* where, size_t blocks, int64_t floats) const;
  [[nodiscard]] bool owns(int32_t block) const { return block >= 0 && block < num_blocks(); }

  Ops* ops_;
  CacheConfig config_;
  int scratch_blocks_;
  Tensor k_pool_;
  Tensor v_pool_;
  Tensor k_scales_;
  Tensor v_scales_;
  std::vector<int32_t> free_;
  std::vector<bool> is_free_;
};

}  // namespace tutti
