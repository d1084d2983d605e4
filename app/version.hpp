#pragma once

#include <string_view>

namespace tutti {

/// "0.1.0"
[[nodiscard]] std::string_view program_version();

}  // namespace tutti
