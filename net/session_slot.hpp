#pragma once

#include <optional>
#include <utility>

#include "net/stats.hpp"

namespace tutti {

/// One of the max_sessions places, given back on destruction.
class SessionSlot {
 public:
  /// Nothing when all are taken.
  [[nodiscard]] static std::optional<SessionSlot> take(NetStats& stats, int max_sessions) {
    if (stats.open_sessions.fetch_add(1) >= max_sessions) {
      stats.open_sessions.fetch_sub(1);
      return std::nullopt;
    }
    return SessionSlot(stats);
  }

  SessionSlot(SessionSlot&& other) noexcept : stats_(std::exchange(other.stats_, nullptr)) {}
  SessionSlot& operator=(SessionSlot&&) = delete;
  ~SessionSlot() {
    if (stats_ != nullptr) stats_->open_sessions.fetch_sub(1);
  }

 private:
  explicit SessionSlot(NetStats& stats) : stats_(&stats) {}

  NetStats* stats_;
};

}  // namespace tutti
