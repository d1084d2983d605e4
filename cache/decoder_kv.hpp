#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/block_pool.hpp"
#include "cache/decoder_kv_batch.hpp"
#include "cache/decoder_kv_config.hpp"
#include "cache/errors.hpp"
#include "cache/stream_index.hpp"

namespace tutti {

/// Which pages hold which row of a decoder's K/V, on a pool of their own: prepare, let the model write,
/// commit.
///
/// A row gets a page when it crosses a page boundary, never loses one, and is freed whole. Nothing is
/// evicted, so admission reserves the ceiling that a row declares, and an admitted row cannot run out of
/// pages half-way through a hypothesis.
///
/// Cross-attention K/V is a row like any other, declared with `prefill_len` equal to its ceiling: its pages
/// are there from the start and it does not grow. The hypotheses of one utterance read one such row: in the
/// batch of their cross-attention they are one lane (or repeat it).
///
/// Nothing allocates memory after construction.
class DecoderKvCacheManager {
 public:
  /// Throws std::invalid_argument for a config that does not validate.
  DecoderKvCacheManager(const DecoderKvConfig& config, Ops& ops);

  /// Whether rows with these ceilings can be reserved, all of them together.
  [[nodiscard]] bool can_admit(std::span<const int> max_tokens) const;
  /// Reserves the pages of `max_tokens` entries, and prepares the first `prefill_len` of them. Throws
  /// std::invalid_argument for a duplicate, unless 1 <= max_tokens <= max_row_tokens and
  /// 0 <= prefill_len <= max_tokens, and PoolExhausted (requested vs available) when it cannot be admitted.
  void allocate_row(StreamId id, int max_tokens, int prefill_len = 0);
  /// Every function that takes an id from here on throws UnknownStream for one that is not allocated.
  void free_row(StreamId id);

  /// Maps the pages that tokens[i] more entries of row ids[i] need. Calling it again before the commit is
  /// legal, and idempotent for the same or fewer tokens. Throws std::invalid_argument for a count below 1,
  /// a row that comes twice or spans that differ in length, std::logic_error past a row's ceiling. Changes
  /// nothing when it throws.
  void prepare_step(std::span<const StreamId> ids, std::span<const int> tokens);
  /// The rows as one batch. A row may come twice when nothing is prepared for it, and so nobody will write
  /// it. Throws std::invalid_argument when one comes twice otherwise, or the batch has not the size for them.
  void fill_batch(std::span<const StreamId> ids, PagedDecoderKv& batch) const;
  /// Counts the entries that the model wrote, at most those prepared (std::logic_error); 0 abandons the step.
  void commit_step(StreamId id, int tokens);

  /// Entries committed.
  [[nodiscard]] int cached_tokens(StreamId id) const;
  /// Physical pages in logical order. Valid until the row changes.
  [[nodiscard]] std::span<const int32_t> block_table(StreamId id) const;
  /// Pages promised to the rows, whether or not they hold them yet.
  [[nodiscard]] int reserved_pages() const { return reserved_pages_; }
  [[nodiscard]] int num_rows() const { return index_.size(); }
  /// Entries of a table row.
  [[nodiscard]] int table_width() const { return table_width_; }
  [[nodiscard]] const BlockPool& pool() const { return pool_; }
  /// As validated.
  [[nodiscard]] const DecoderKvConfig& config() const { return config_; }

 private:
  struct Row {
    int ceiling = 0;
    int length = 0;    // entries committed
    int prepared = 0;  // entries that may be written behind them
    int pages = 0;     // in the table row
  };

  [[nodiscard]] const Row& row(const char* where, StreamId id) const;
  [[nodiscard]] std::span<int32_t> table_row(int index);
  void check_step(const char* where, StreamId id, int tokens) const;
  void map_pages(int index, int tokens);

  DecoderKvConfig config_;
  BlockPool pool_;
  int table_width_;
  int reserved_pages_ = 0;
  StreamIndex index_;            // row id -> its state and table row
  std::vector<Row> rows_;        // (max_rows)
  std::vector<int32_t> tables_;  // (max_rows, table_width)
};

}  // namespace tutti
