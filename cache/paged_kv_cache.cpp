#include "cache/paged_kv_cache.hpp"

#include <algorithm>

#include "cache/checked_extent.hpp"

namespace tutti {

PagedKvCache::PagedKvCache(const BlockPool& pool, int max_lanes, int table_width)
    : pool_(&pool),
      table_width_(table_width),
      block_table_(checked_extent("PagedKvCache", "max_lanes", max_lanes) *
                   checked_extent("PagedKvCache", "table_width", table_width)),
      cache_seqlens_(static_cast<size_t>(max_lanes)),
      cache_begin_(static_cast<size_t>(max_lanes)),
      filled_(static_cast<size_t>(max_lanes)) {}

PagedKv PagedKvCache::layer(int layer) const {
  const BlockPool::KvView view = pool_->get_kv_view(layer);
  const auto lanes = static_cast<size_t>(lanes_);
  return {.k = view.k,
          .v = view.v,
          .block_table = std::span(block_table_).first(lanes * static_cast<size_t>(table_width_)),
          .table_width = table_width_,
          .cache_seqlens = std::span(cache_seqlens_).first(lanes),
          .cache_begin = std::span(cache_begin_).first(lanes)};
}

void PagedKvCache::set_lane(size_t lane, std::span<const int32_t> blocks, int32_t cache_seqlen,
                            int32_t cache_begin) {
  const auto width = static_cast<size_t>(table_width_);
  const auto row = std::span(block_table_).subspan(lane * width, width);
  const auto rest = std::ranges::copy(blocks, row.begin()).out;
  if (blocks.size() < filled_[lane])
    std::fill(rest, row.begin() + static_cast<std::ptrdiff_t>(filled_[lane]), 0);
  filled_[lane] = blocks.size();
  cache_seqlens_[lane] = cache_seqlen;
  cache_begin_[lane] = cache_begin;
}

}  // namespace tutti
