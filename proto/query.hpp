#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/result.hpp"

namespace tutti::proto {

using QueryParameters = std::vector<std::pair<std::string, std::string>>;

/// Splits "a=1&b=x%20y" (application/x-www-form-urlencoded: `+` is a space) into decoded names and values, in
/// order. A name without `=` has an empty value. Fails with "bad_parameter" on a broken percent escape.
[[nodiscard]] Result<QueryParameters> parse_query(std::string_view query);

/// A part of a URL's path, where `+` stands for itself. Fails with "bad_parameter".
[[nodiscard]] Result<std::string> decode_path_segment(std::string_view segment);

}  // namespace tutti::proto
