#include "config/client_terms.hpp"

namespace tutti {

std::string_view to_string(Right right) {
  switch (right) {
    case Right::stream:
      return "stream";
    case Right::upload:
      return "upload";
    case Right::monitor:
      return "monitor";
    case Right::metrics:
      return "metrics";
    case Right::admin:
      return "admin";
  }
  return "";
}

std::optional<Right> parse_right(std::string_view name) {
  for (const Right right : every_right) {
    if (to_string(right) == name) return right;
  }
  return std::nullopt;
}

std::string to_string(Rights set) {
  std::string names;
  for (const Right right : every_right) {
    if (!set.has(right)) continue;
    if (!names.empty()) names += ", ";
    names += to_string(right);
  }
  return names;
}

}  // namespace tutti
