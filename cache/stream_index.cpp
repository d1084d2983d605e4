#include "cache/stream_index.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace tutti {
namespace {

size_t checked(int capacity) {
  if (capacity >= 1) return static_cast<size_t>(capacity);
  throw std::invalid_argument(fmt::format("StreamIndex: capacity {}, expected at least 1", capacity));
}

}  // namespace

StreamIndex::StreamIndex(int capacity, const char* what)
    : what_(what),
      capacity_(capacity),
      entries_(std::bit_ceil(2 * checked(capacity))),
      shift_(64 - std::countr_zero(entries_.size())) {
  spare_.reserve(checked(capacity));
  for (int row = capacity - 1; row >= 0; --row) spare_.push_back(row);
}

int StreamIndex::insert(const char* where, StreamId id) {
  Entry& entry = entries_[find(id)];
  if (entry.row != no_row) {
    throw std::invalid_argument(fmt::format("{}: {} {} is already allocated", where, what_, id));
  }
  if (spare_.empty()) {
    throw PoolExhausted(fmt::format("{}: requested 1 {}, 0 of {} are free", where, what_, capacity()));
  }
  entry = {id, spare_.back()};
  spare_.pop_back();
  return entry.row;
}

int StreamIndex::erase(const char* where, StreamId id) {
  const int row = at(where, id);
  // Entries behind it that would no longer be found past a gap move up.
  size_t gap = find(id);
  const size_t mask = entries_.size() - 1;
  for (size_t next = after(gap); entries_[next].row != no_row; next = after(next)) {
    const size_t from_home = (next - home(entries_[next].id)) & mask;
    const size_t from_gap = (next - gap) & mask;
    if (from_home < from_gap) continue;
    entries_[gap] = entries_[next];
    gap = next;
  }
  entries_[gap].row = no_row;
  spare_.push_back(row);
  return row;
}

}  // namespace tutti
