#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/errors.hpp"
#include "config/cache_config.hpp"
#include "gpu/ops.hpp"

namespace tutti {

/// Bytes one physical block takes over all layers: 2 (K and V) x layers x block x heads x head_dim x element.
[[nodiscard]] int64_t bytes_per_kv_block(const CacheConfig& config, DType dtype);

/// The preallocated K and V of every stream of one device, (layers, blocks, block_size, n_kv_head, head_dim)
/// each, and the list of blocks nobody owns. Only its owner thread touches it.
///
/// The list is a stack: the blocks freed last are handed out first, while they are still in the CPU's cache.
/// A block keeps what its last owner wrote; a reader goes by cache_seqlens and never looks past it.
class BlockPool {
 public:
  /// Throws std::invalid_argument for a config that does not validate, or a dtype that is not f32 or bf16.
  BlockPool(const CacheConfig& config, Ops& ops, DType dtype = DType::f32);

  /// Fills `blocks`. Throws PoolExhausted (requested vs free) and changes nothing when there are not enough.
  void allocate(std::span<int32_t> blocks);
  /// Takes them back such that allocating as many again returns them in the same order.
  /// Throws std::invalid_argument for a block that is out of range or already free, and then takes back none.
  void free(std::span<const int32_t> blocks);

  [[nodiscard]] int num_blocks() const { return config_.max_num_blocks; }
  [[nodiscard]] int num_free() const { return static_cast<int>(free_.size()); }
  /// As validated.
  [[nodiscard]] const CacheConfig& config() const { return config_; }

  struct KvView {
    TensorView k;
    TensorView v;
  };
  /// (blocks, block_size, n_kv_head, head_dim). Throws std::out_of_range for a layer the model does not have.
  [[nodiscard]] KvView get_kv_view(int layer) const;
  /// (block_size, n_kv_head, head_dim). Throws std::out_of_range also for a block the pool does not have.
  [[nodiscard]] KvView get_kv_block_view(int layer, int32_t block) const;

 private:
  [[nodiscard]] bool owns(int32_t block) const { return block >= 0 && block < num_blocks(); }

  CacheConfig config_;
  Tensor k_pool_;
  Tensor v_pool_;
  std::vector<int32_t> free_;
  std::vector<bool> is_free_;
};

}  // namespace tutti
