#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/block_pool.hpp"

namespace tutti {

/// Rows of a decoder's K/V cache side by side, one a lane, as the attention kernel reads them: what a decoder
/// is written against, whatever the storage.
class DecoderKvBatch {
 public:
  virtual ~DecoderKvBatch() = default;
  /// What layer `layer`'s attention reads and writes. Valid until the batch changes.
  [[nodiscard]] virtual DecoderKv layer(int layer) const = 0;
  [[nodiscard]] virtual int lanes() const = 0;
  /// Lane i becomes what lane lanes[i] was; an index may repeat, and lanes that are not named are dropped.
  virtual void select(std::span<const int32_t> lanes) = 0;
};

/// Rows of a DecoderKvCacheManager, in pages. Filled by its fill_batch; sized once.
class PagedDecoderKv final : public DecoderKvBatch {
 public:
  /// Throws std::invalid_argument unless both extents are positive.
  PagedDecoderKv(const BlockPool& pool, int max_lanes, int table_width);

  [[nodiscard]] DecoderKv layer(int layer) const override;
  [[nodiscard]] int lanes() const override { return lanes_; }
  /// Throws std::logic_error: a row's pages are its own, and an index that repeats would have two rows write
  /// to one page. Beams are selected in a DenseDecoderKv.
  void select(std::span<const int32_t> lanes) override;

  [[nodiscard]] int max_lanes() const { return static_cast<int>(cache_seqlens_.size()); }
  [[nodiscard]] int table_width() const { return table_width_; }

 private:
  friend class DecoderKvCacheManager;
  /// Writes one lane; the table row is zero past `pages`.
  void set_lane(int lane, std::span<const int32_t> pages, int32_t cache_seqlen);

  const BlockPool* pool_;
  int table_width_;
  int lanes_ = 0;
  std::vector<int32_t> block_table_;    // (max_lanes, table_width)
  std::vector<int32_t> cache_seqlens_;  // (max_lanes)
};

}  // namespace tutti
