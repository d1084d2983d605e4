#include "model/input_file.hpp"

#include <fmt/format.h>

#include <fstream>
#include <limits>

#include "config/result.hpp"

namespace tutti {

std::string read_input_file(const std::filesystem::path& file, size_t max_bytes) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  if (error) throw SetupError(fmt::format("{}: cannot be read: {}", file.string(), error.message()));
  if (size > max_bytes) {
    throw SetupError(
        fmt::format("{}: has {} bytes; at most {} are accepted", file.string(), size, max_bytes));
  }
  std::string bytes(size, '\0');
  std::ifstream in(file, std::ios::binary);
  if (!in.read(bytes.data(), static_cast<std::streamsize>(size))) {
    throw SetupError(fmt::format("{}: cannot be read", file.string()));
  }
  return bytes;
}

std::string printable(std::string_view text) {
  constexpr size_t longest = 80;
  std::string out = "'";
  for (char c : text.substr(0, longest)) out += c >= 0x20 && c < 0x7f ? c : '?';
  if (text.size() > longest) out += "...";
  return out + "'";
}

Shape checked_shape(std::span<const int64_t> extents, std::string_view what) {
  if (extents.size() > Shape::max_rank) {
    throw SetupError(
        fmt::format("{} has {} dimensions; at most {} are accepted", what, extents.size(), Shape::max_rank));
  }
  // A zero extent makes the product 0 whatever follows, so the limit is on the non-zero ones.
  constexpr int64_t max_elements = std::numeric_limits<int64_t>::max() / static_cast<int64_t>(sizeof(float));
  int64_t elements = 1;
  for (int64_t extent : extents) {
    if (extent < 0) throw SetupError(fmt::format("{} has a negative extent, {}", what, extent));
    if (extent > 0 && elements > max_elements / extent) {
      throw SetupError(fmt::format("{} has more elements than memory can address", what));
    }
    if (extent > 0) elements *= extent;
  }
  return Shape(extents);
}

}  // namespace tutti
