#include "cache/decoder_kv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace tutti {
namespace {

/// Whether ids[at] is in front of `at` too.
bool came_before(std::span<const StreamId> ids, size_t at) {
  const auto earlier = ids.first(at);
  return std::ranges::find(earlier, ids[at]) != earlier.end();
}

[[noreturn]] void refuse_twice(const char* where, StreamId id) {
  throw std::invalid_argument(fmt::format("{}: row {} is in the batch twice", where, id));
}

}  // namespace

DecoderKvCacheManager::DecoderKvCacheManager(const DecoderKvConfig& config, Ops& ops)
    : config_(config.validated()),
      pool_(config_.pool_config(), ops, config_.format),
      table_width_(config_.pages_for(config_.max_row_tokens)),
      index_(config_.max_rows, "row"),
      rows_(static_cast<size_t>(config_.max_rows)),
      tables_(rows_.size() * static_cast<size_t>(table_width_)) {}

bool DecoderKvCacheManager::can_admit(std::span<const int> max_tokens) const {
  int64_t pages = reserved_pages_;
  for (const int tokens : max_tokens) {
    if (tokens < 1 || tokens > config_.max_row_tokens) return false;
    pages += config_.pages_for(tokens);
  }
  return static_cast<size_t>(index_.num_free()) >= max_tokens.size() && pages <= pool_.num_blocks();
}

void DecoderKvCacheManager::allocate_row(StreamId id, int max_tokens, int prefill_len) {
  constexpr auto where = "DecoderKvCacheManager::allocate_row";
  if (max_tokens < 1 || max_tokens > config_.max_row_tokens) {
    throw std::invalid_argument(fmt::format("{}: row {}: max_tokens = {}, expected 1 to {}", where, id,
                                            max_tokens, config_.max_row_tokens));
  }
  if (prefill_len < 0 || prefill_len > max_tokens) {
    throw std::invalid_argument(
        fmt::format("{}: row {}: prefill_len = {}, expected 0 to {}", where, id, prefill_len, max_tokens));
  }
  const int index = index_.insert(where, id);
  const int pages = config_.pages_for(max_tokens);
  if (reserved_pages_ + pages > pool_.num_blocks()) {
    index_.erase(where, id);
    throw PoolExhausted(fmt::format("{}: row {}: requested {} pages, {} of {} are not reserved", where, id,
                                    pages, pool_.num_blocks() - reserved_pages_, pool_.num_blocks()));
  }
  reserved_pages_ += pages;
  rows_[static_cast<size_t>(index)] = Row{.ceiling = max_tokens};
  map_pages(index, prefill_len);
}

void DecoderKvCacheManager::free_row(StreamId id) {
  const int index = index_.erase("DecoderKvCacheManager::free_row", id);
  Row& r = rows_[static_cast<size_t>(index)];
  pool_.free(table_row(index).first(static_cast<size_t>(r.pages)));
  reserved_pages_ -= config_.pages_for(r.ceiling);
  r = Row{};
}

void DecoderKvCacheManager::prepare_step(std::span<const StreamId> ids, std::span<const int> tokens) {
  constexpr auto where = "DecoderKvCacheManager::prepare_step";
  if (ids.size() != tokens.size()) {
    throw std::invalid_argument(
        fmt::format("{}: {} token counts, expected {}", where, tokens.size(), ids.size()));
  }
  for (size_t lane = 0; lane < ids.size(); ++lane) {
    check_step(where, ids[lane], tokens[lane]);
    if (came_before(ids, lane)) refuse_twice(where, ids[lane]);
  }
  for (size_t lane = 0; lane < ids.size(); ++lane) map_pages(index_.at(where, ids[lane]), tokens[lane]);
}

void DecoderKvCacheManager::fill_batch(std::span<const StreamId> ids, PagedDecoderKv& batch) const {
  constexpr auto where = "DecoderKvCacheManager::fill_batch";
  if (batch.table_width() != table_width()) {
    throw std::invalid_argument(
        fmt::format("{}: table width {}, expected {}", where, batch.table_width(), table_width()));
  }
  if (ids.size() > static_cast<size_t>(batch.max_lanes())) {
    throw std::invalid_argument(
        fmt::format("{}: {} lanes, expected at most {}", where, ids.size(), batch.max_lanes()));
  }
  for (size_t lane = 0; lane < ids.size(); ++lane) {
    if (row(where, ids[lane]).prepared > 0 && came_before(ids, lane)) refuse_twice(where, ids[lane]);
  }
  batch.lanes_ = static_cast<int>(ids.size());
  for (int lane = 0; lane < batch.lanes_; ++lane) {
    const StreamId id = ids[static_cast<size_t>(lane)];
    batch.set_lane(lane, block_table(id), row(where, id).length);
  }
}

void DecoderKvCacheManager::commit_step(StreamId id, int tokens) {
  constexpr auto where = "DecoderKvCacheManager::commit_step";
  Row& r = rows_[static_cast<size_t>(index_.at(where, id))];
  if (tokens < 0 || tokens > r.prepared) {
    throw std::logic_error(fmt::format("{}: row {} commits {} tokens, expected 0 to the {} prepared", where,
                                       id, tokens, r.prepared));
  }
  r.length += tokens;
  r.prepared = 0;
}

int DecoderKvCacheManager::cached_tokens(StreamId id) const {
  return row("DecoderKvCacheManager::cached_tokens", id).length;
}

std::span<const int32_t> DecoderKvCacheManager::block_table(StreamId id) const {
  constexpr auto where = "DecoderKvCacheManager::block_table";
  const auto width = static_cast<size_t>(table_width_);
  const auto begin = static_cast<size_t>(index_.at(where, id)) * width;
  return std::span(tables_).subspan(begin, static_cast<size_t>(row(where, id).pages));
}

const DecoderKvCacheManager::Row& DecoderKvCacheManager::row(const char* where, StreamId id) const {
  return rows_[static_cast<size_t>(index_.at(where, id))];
}

std::span<int32_t> DecoderKvCacheManager::table_row(int index) {
  const auto width = static_cast<size_t>(table_width_);
  return std::span(tables_).subspan(static_cast<size_t>(index) * width, width);
}

/// Throws for what prepare refuses.
void DecoderKvCacheManager::check_step(const char* where, StreamId id, int tokens) const {
  const Row& r = row(where, id);
  if (tokens < 1) {
    throw std::invalid_argument(fmt::format("{}: row {}: {} tokens, expected at least 1", where, id, tokens));
  }
  if (tokens > r.ceiling - r.length) {
    throw std::logic_error(
        fmt::format("{}: row {} holds {} tokens and {} more were requested, expected at most "
                    "the {} it declared",
                    where, id, r.length, tokens, r.ceiling));
  }
}

/// Maps the pages that `tokens` more entries need. They are reserved, so the pool has them.
void DecoderKvCacheManager::map_pages(int index, int tokens) {
  Row& r = rows_[static_cast<size_t>(index)];
  const int needed = std::max(r.pages, config_.pages_for(r.length + tokens));
  const auto held = static_cast<size_t>(r.pages);
  pool_.allocate(table_row(index).subspan(held, static_cast<size_t>(needed) - held));
  r.pages = needed;
  r.prepared = std::max(r.prepared, tokens);
}

}  // namespace tutti
