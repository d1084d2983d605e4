#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/block_pool.hpp"

namespace tutti {

/// The batched addressing of one tick: the lanes' block tables, lengths and begins side by side, shared by
/// all layers. Filled by AttentionCacheManager::fill_batch; sized once.
class PagedKvCache {
 public:
  /// Throws std::invalid_argument unless both extents are positive.
  PagedKvCache(const BlockPool& pool, int max_lanes, int table_width);

  /// What layer `layer`'s attention kernel reads. Valid until the next fill_batch.
  [[nodiscard]] PagedKv layer(int layer) const;
  [[nodiscard]] int lanes() const { return lanes_; }
  [[nodiscard]] int max_lanes() const { return static_cast<int>(cache_seqlens_.size()); }
  [[nodiscard]] int table_width() const { return table_width_; }

 private:
  friend class AttentionCacheManager;
  /// Writes one lane; the table row is zero past `blocks`.
  void set_lane(size_t lane, std::span<const int32_t> blocks, int32_t cache_seqlen, int32_t cache_begin);

  const BlockPool* pool_;
  int table_width_;
  int lanes_ = 0;
  std::vector<int32_t> block_table_;    // (max_lanes, table_width)
  std::vector<int32_t> cache_seqlens_;  // (max_lanes)
  std::vector<int32_t> cache_begin_;    // (max_lanes)
  std::vector<size_t> filled_;          // (max_lanes): entries of its table row that may not be 0
};

}  // namespace tutti
