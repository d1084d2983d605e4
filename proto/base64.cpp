#include "proto/base64.hpp"

#include <openssl/evp.h>

#include <array>
#include <limits>

namespace tutti::proto {
namespace {

/// Takes the padding off; more than two signs of it stay, and are no base64.
std::string_view without_padding(std::string_view text) {
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  return text;
}

bool decode_blocks(std::string_view text, std::byte* out) {
  return EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out),
                         reinterpret_cast<const unsigned char*>(text.data()),
                         static_cast<int>(text.size())) >= 0;
}

}  // namespace

std::optional<std::vector<std::byte>> decode_base64(std::string_view text) {
  if (text.ends_with('=') && text.size() % 4 != 0) return std::nullopt;
  text = without_padding(text);
  // What OpenSSL skips or takes for an end, wherever it stands.
  if (text.find_first_of(" \t\r\n-=") != std::string_view::npos) return std::nullopt;
  const size_t tail = text.size() % 4;
  if (tail == 1 || text.size() > std::numeric_limits<int>::max()) return std::nullopt;

  const size_t whole = text.size() - tail;
  std::vector<std::byte> bytes(whole / 4 * 3);
  if (whole > 0 && !decode_blocks(text.substr(0, whole), bytes.data())) return std::nullopt;
  if (tail == 0) return bytes;

  std::array<char, 4> block{'A', 'A', 'A', 'A'};
  text.copy(block.data(), tail, whole);
  std::array<std::byte, 3> decoded{};
  if (!decode_blocks({block.data(), block.size()}, decoded.data())) return std::nullopt;
  bytes.insert(bytes.end(), decoded.begin(), decoded.begin() + static_cast<std::ptrdiff_t>(tail) - 1);
  return bytes;
}

}  // namespace tutti::proto
