#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "gpu/tensor.hpp"

namespace tutti {

/// What the readers of untrusted files share. All of them throw SetupError.

/// The whole file, of at most `max_bytes`.
[[nodiscard]] std::string read_input_file(const std::filesystem::path& file, size_t max_bytes);

/// `text` in single quotes for a message: control and non-ASCII characters replaced, cut to 80 characters.
[[nodiscard]] std::string printable(std::string_view text);

/// The shape a file states. Refuses ranks above Shape::max_rank, negative extents and element counts that do
/// not fit the address space; `what` opens the message.
[[nodiscard]] Shape checked_shape(std::span<const int64_t> extents, std::string_view what);

}  // namespace tutti
