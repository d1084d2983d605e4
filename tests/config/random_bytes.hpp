#pragma once

#include <random>
#include <string>
#include <string_view>

namespace tutti {

/// The seed of this run's property tests; each prints it on failure.
inline unsigned fresh_seed() { return std::random_device{}(); }

inline std::string random_bytes(std::mt19937& random, size_t longest) {
  std::string bytes(std::uniform_int_distribution<size_t>(0, longest)(random), '\0');
  for (char& byte : bytes) byte = static_cast<char>(std::uniform_int_distribution<int>(0, 255)(random));
  return bytes;
}

/// Pieces of `alphabet` strung together: close enough to the real grammar to reach deep into a parser.
template <size_t N>
std::string random_pieces(std::mt19937& random, const std::string_view (&alphabet)[N], int longest) {
  std::string text;
  const int count = std::uniform_int_distribution<int>(0, longest)(random);
  for (int i = 0; i < count; ++i) text += alphabet[std::uniform_int_distribution<size_t>(0, N - 1)(random)];
  return text;
}

}  // namespace tutti
