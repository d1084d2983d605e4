#include "cache/decoder_kv_batch.hpp"

#include <algorithm>
#include <stdexcept>

#include "cache/checked_extent.hpp"

namespace tutti {

PagedDecoderKv::PagedDecoderKv(const BlockPool& pool, int max_lanes, int table_width)
    : pool_(&pool),
      table_width_(table_width),
      block_table_(checked_extent("PagedDecoderKv", "max_lanes", max_lanes) *
                   checked_extent("PagedDecoderKv", "table_width", table_width)),
      cache_seqlens_(static_cast<size_t>(max_lanes)) {}

DecoderKv PagedDecoderKv::layer(int layer) const {
  const BlockPool::KvView view = pool_->get_kv_view(layer);
  const auto lanes = static_cast<size_t>(lanes_);
  return {.k = view.k,
          .v = view.v,
          .k_scales = view.k_scales,
          .v_scales = view.v_scales,
          .block_table = std::span(block_table_).first(lanes * static_cast<size_t>(table_width_)),
          .table_width = table_width_,
          .cache_seqlens = std::span(cache_seqlens_).first(lanes)};
}

void PagedDecoderKv::select(std::span<const int32_t> /*lanes*/) {
  throw std::logic_error(
      "PagedDecoderKv::select: a row's pages are its own, and a repeated index would alias two rows onto one "
      "page; select in a DenseDecoderKv");
}

void PagedDecoderKv::set_lane(int lane, std::span<const int32_t> pages, int32_t cache_seqlen) {
  const auto width = static_cast<size_t>(table_width_);
  const auto row = std::span(block_table_).subspan(static_cast<size_t>(lane) * width, width);
  std::ranges::fill(std::ranges::copy(pages, row.begin()).out, row.end(), 0);
  cache_seqlens_[static_cast<size_t>(lane)] = cache_seqlen;
}

}  // namespace tutti
