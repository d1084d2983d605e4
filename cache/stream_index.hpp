#pragma once

#include <unordered_map>
#include <vector>

#include "cache/errors.hpp"

namespace tutti {

/// Maps the open streams' ids to dense rows [0, capacity). The map's nodes are made at construction and carry
/// their row from stream to stream, so that opening and closing streams allocates nothing.
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
  [[nodiscard]] int at(const char* where, StreamId id) const;
  [[nodiscard]] bool contains(StreamId id) const { return rows_.contains(id); }

  [[nodiscard]] int size() const { return static_cast<int>(rows_.size()); }
  [[nodiscard]] int num_free() const { return static_cast<int>(spare_.size()); }
  [[nodiscard]] int capacity() const { return size() + num_free(); }

 private:
  using Rows = std::unordered_map<StreamId, int>;
  const char* what_;
  Rows rows_;
  std::vector<Rows::node_type> spare_;
};

}  // namespace tutti
