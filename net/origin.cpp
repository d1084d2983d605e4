#include "net/origin.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace tutti {
namespace {

bool equal_without_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

/// What a browser leaves out, and a proxy may put in.
std::string_view without_port(std::string_view host, std::string_view port) {
  return host.ends_with(port) ? host.substr(0, host.size() - port.size()) : host;
}

}  // namespace

bool is_same_origin(std::string_view origin, std::string_view host) {
  for (const auto& [scheme, port] : {std::pair{std::string_view("http://"), std::string_view(":80")},
                                     std::pair{std::string_view("https://"), std::string_view(":443")}}) {
    if (!equal_without_case(origin.substr(0, scheme.size()), scheme)) continue;
    origin.remove_prefix(scheme.size());
    return !host.empty() && equal_without_case(without_port(origin, port), without_port(host, port));
  }
  return false;
}

bool may_use(std::string_view origin, std::string_view host, const std::vector<std::string>& allowed) {
  return is_same_origin(origin, host) || std::ranges::any_of(allowed, [&](const std::string& each) {
           return each == "*" || equal_without_case(each, origin);
         });
}

}  // namespace tutti
