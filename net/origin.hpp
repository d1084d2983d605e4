#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// Whether a browser's page may use a server: one that came from it, which is what the request's Origin and
/// Host have in common, or one of an origin that is allowed; "*" allows all. Other programs send no Origin
/// (RFC 6454, section 7.3) and are none of this.
[[nodiscard]] bool may_use(std::string_view origin, std::string_view host,
                           const std::vector<std::string>& allowed);

/// Whether a page came from the server itself.
[[nodiscard]] bool is_same_origin(std::string_view origin, std::string_view host);

}  // namespace tutti
