#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "cache/errors.hpp"

namespace tutti {

/// Maps the open streams' ids to dense rows [0, capacity). A hash table of fixed size with linear probing, at
/// most half full: every lane of every tick is looked up in it, and opening and closing streams allocates
/// nothing.
class StreamIndex {
 public:
  /// `what` names in messages what an id stands for.
  explicit StreamIndex(int capacity, const char* what = "stream");

  /// Returns the id's row: the one closed last. `where` names the caller in the messages.
  /// Throws std::invalid_argument for a duplicate, PoolExhausted when no row is free.
  int insert(const char* where, StreamId id);
  /// Returns the row that is free again. Throws UnknownStream.
  int erase(const char* where, StreamId id);
  /// Throws UnknownStream.
  [[nodiscard]] int at(const char* where, StreamId id) const {
    const int row = entries_[find(id)].row;
    if (row == no_row) throw UnknownStream(where, id, what_);
    return row;
  }
  [[nodiscard]] bool contains(StreamId id) const { return entries_[find(id)].row != no_row; }

  [[nodiscard]] int size() const { return capacity_ - num_free(); }
  [[nodiscard]] int num_free() const { return static_cast<int>(spare_.size()); }
  [[nodiscard]] int capacity() const { return capacity_; }

 private:
  static constexpr int no_row = -1;
  struct Entry {
    StreamId id = 0;
    int row = no_row;
  };

  /// Where an id is looked for first: the high bits of a product (Knuth's multiplicative hashing), because
  /// ids that differ little, or only in their high bits, are the rule.
  [[nodiscard]] size_t home(StreamId id) const {
    return static_cast<size_t>((static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15U) >> shift_);
  }
  [[nodiscard]] size_t after(size_t entry) const { return (entry + 1) & (entries_.size() - 1); }
  /// The id's entry, or the free one where it would go.
  [[nodiscard]] size_t find(StreamId id) const {
    size_t entry = home(id);
    while (entries_[entry].row != no_row && entries_[entry].id != id) entry = after(entry);
    return entry;
  }

  const char* what_;
  int capacity_;
  std::vector<Entry> entries_;  // a power of two
  int shift_;
  std::vector<int> spare_;
};

}  // namespace tutti
