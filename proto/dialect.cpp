#include "proto/dialect.hpp"

#include <algorithm>

namespace tutti::proto {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

}  // namespace

CloseReason close_reason(std::string_view error_code) {
  if (error_code == "full" || error_code == "overloaded" || error_code == "no_device") {
    return CloseReason::try_again_later;
  }
  if (error_code == "draining" || error_code == "stopped") return CloseReason::going_away;
  if (error_code == "recognition_failed" || error_code == "owner_lost") return CloseReason::internal;
  if (error_code == "message_too_long") return CloseReason::too_big;
  return CloseReason::policy;
}

std::string_view Handshake::header(std::string_view name) const {
  const auto found =
      std::ranges::find_if(headers, [name](const auto& header) { return same_name(header.first, name); });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::vector<std::string_view> Handshake::subprotocols() const {
  std::vector<std::string_view> offered;
  std::string_view rest = header("Sec-WebSocket-Protocol");
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    if (const auto name = trimmed(entry); !name.empty()) offered.push_back(name);
  }
  return offered;
}

}  // namespace tutti::proto
