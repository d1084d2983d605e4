#pragma once

#include <cstdint>
#include <vector>

#include "cache/block_pool.hpp"

namespace tutti {

/// The batched addressing of one tick: the lanes' block tables, lengths and begins side by side, shared by all
/// layers. Filled by AttentionCacheManager::fill_batch; sized once.
class PagedKvCache {
 public:
  PagedKvCache(const BlockPool& pool, int max_lanes, int table_width);

  /// What layer `layer`'s attention kernel reads.
  [[nodiscard]] PagedKv layer(int layer) const;
  [[nodiscard]] int lanes() const { return lanes_; }

 private:
  friend class AttentionCacheManager;
  const BlockPool* pool_;
  int table_width_;
  int lanes_ = 0;
  std::vector<int32_t> block_table_;
  std::vector<int32_t> cache_seqlens_;
  std::vector<int32_t> cache_begin_;
};

}  // namespace tutti
