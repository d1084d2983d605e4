#include "cache/stream_index.hpp"

#include <fmt/format.h>

namespace tutti {

StreamIndex::StreamIndex(int capacity, const char* what) : what_(what) {
  if (capacity < 1) {
    throw std::invalid_argument(fmt::format("StreamIndex: capacity {}, expected at least 1", capacity));
  }
  const auto count = static_cast<size_t>(capacity);
  rows_.reserve(count);
  spare_.reserve(count);
  for (int row = 0; row < capacity; ++row) rows_.emplace(row, row);
  for (int row = capacity - 1; row >= 0; --row) spare_.push_back(rows_.extract(row));
}

int StreamIndex::insert(const char* where, StreamId id) {
  if (contains(id))
    throw std::invalid_argument(fmt::format("{}: {} {} is already allocated", where, what_, id));
  if (spare_.empty()) {
    throw PoolExhausted(fmt::format("{}: requested 1 {}, 0 of {} are free", where, what_, capacity()));
  }
  spare_.back().key() = id;
  const int row = spare_.back().mapped();
  rows_.insert(std::move(spare_.back()));
  spare_.pop_back();
  return row;
}

int StreamIndex::erase(const char* where, StreamId id) {
  const int row = at(where, id);
  spare_.push_back(rows_.extract(id));
  return row;
}

int StreamIndex::at(const char* where, StreamId id) const {
  const auto found = rows_.find(id);
  if (found == rows_.end()) throw UnknownStream(where, id, what_);
  return found->second;
}

}  // namespace tutti
