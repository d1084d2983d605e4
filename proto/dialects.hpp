#pragma once

#include <span>
#include <string_view>

#include "proto/dialect.hpp"

namespace tutti::proto {

/// A dialect and where it is spoken.
struct DialectEntry {
  std::string_view name;  ///< in options, metrics and logs
  std::string_view path;
  int usual_port = 0;  ///< where its clients expect it, at "/"; 0 = nowhere
  Acceptance (*accept)(const Handshake& handshake);
};

/// All of them; the first is the native one.
[[nodiscard]] std::span<const DialectEntry> dialects();
/// Null when there is none.
[[nodiscard]] const DialectEntry* find_dialect(std::string_view name);
[[nodiscard]] const DialectEntry* find_dialect_at(std::string_view path);

}  // namespace tutti::proto
