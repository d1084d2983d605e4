#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "proto/dialect.hpp"

namespace tutti::proto {

// What a line of a conversation makes happen: the notation is that of tests/proto/conversation.hpp.

struct ClientText {
  std::string text;
};
struct ClientBinary {
  std::vector<std::byte> bytes;
  bool ends_message = true;
};
struct TrackSays {
  int track = 0;
  ServerEvent event;
};
struct TrackHeard {
  int track = 0;
  int64_t bytes = 0;
};
struct Idle {};
struct Fault {
  Error error;
};
using Happening = std::variant<ClientText, ClientBinary, TrackSays, TrackHeard, Idle, Fault>;

/// Nothing when the line is none of these.
[[nodiscard]] std::optional<Happening> parse_happening(std::string_view line);

/// "Name: value" of a handshake.
[[nodiscard]] std::optional<std::pair<std::string, std::string>> parse_header(std::string_view line);

}  // namespace tutti::proto
