#pragma once

#include <cstddef>
#include <deque>
#include <string>

namespace tutti {

/// The messages of one session that wait for the socket. Bounded: a partial is worth nothing once a newer one
/// exists, so at most one waits, and it is the first to give way at the cap; finals are never dropped, the
/// reader that lets them fill the queue is.
class EventQueue {
 public:
  enum class Outcome {
    queued,
    superseded,  ///< queued, or not, at the price of a partial
    overflow,    ///< not queued: full of messages that must not be dropped
  };

  explicit EventQueue(size_t capacity) : capacity_(capacity) {}

  Outcome push(std::string message, bool is_partial);
  /// Takes the oldest message; the queue is not empty.
  [[nodiscard]] std::string pop();
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string message;
    bool is_partial;
  };

  bool drop_partial();

  size_t capacity_;
  std::deque<Entry> entries_;
};

}  // namespace tutti
