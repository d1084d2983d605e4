#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "gpu/tensor.hpp"

namespace tutti {

// What the readers of untrusted files share.

/// The whole file. Throws SetupError when it cannot be read or has more than `max_bytes`.
[[nodiscard]] std::string read_input_file(const std::filesystem::path& file, size_t max_bytes);

/// `text` in single quotes for a message: control and non-ASCII characters replaced, cut to 80 characters.
[[nodiscard]] std::string printable(std::string_view text);

/// The shape a file states. Throws SetupError, with `what` opening the message, for ranks above
/// Shape::max_rank, negative extents, and element counts that do not fit the address space.
[[nodiscard]] Shape checked_shape(std::span<const int64_t> extents, std::string_view what);

}  // namespace tutti
