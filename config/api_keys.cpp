#include "config/api_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "config/result.hpp"
#include "config/toml_file.hpp"

namespace tutti {
namespace {

constexpr std::string_view scheme = "sha256:";

std::optional<Sha256> parse_digest(std::string_view text) {
  Sha256 digest{};
  if (!text.starts_with(scheme)) return std::nullopt;
  text.remove_prefix(scheme.size());
  if (text.size() != 2 * digest.size()) return std::nullopt;
  for (size_t i = 0; i < digest.size(); ++i) {
    const char* const begin = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(begin, begin + 2, digest[i], 16);
    if (error != std::errc{} || end != begin + 2) return std::nullopt;
  }
  return digest;
}

}  // namespace

std::vector<ApiKey> load_api_keys(const std::string& path) {
  std::vector<ApiKey> keys;
  const toml::table table = parse_toml_file(path);
  for (const auto& [name, node] : table) {
    ApiKey key{.name = std::string(name.str())};
    const auto refuse = [&path, line = name.source().begin.line](std::string_view why) {
      throw SetupError(fmt::format(
          "{}:{}: {}; a line is NAME = \"sha256:HEX\", as `tutti keygen NAME` writes it", path, line, why));
    };
    if (!is_api_key_name(key.name)) refuse("a name is up to 64 letters, digits, _ and -");
    // The value is not shown: it might be a key that was stored by mistake.
    const auto digest = parse_digest(node.value_or(std::string_view()));
    if (!digest) refuse(fmt::format("the value of {} is not sha256: and 64 hexadecimal digits", key.name));
    key.digest = *digest;
    const auto same = std::ranges::find(keys, key.digest, &ApiKey::digest);
    if (same != keys.end()) refuse(fmt::format("{} and {} are the same key", same->name, key.name));
    keys.push_back(std::move(key));
  }
  if (keys.empty()) {
    throw SetupError(fmt::format("{}: holds no keys; `tutti keygen NAME` makes one", path));
  }
  return keys;
}

std::string api_key_line(const ApiKey& key) {
  std::string hex;
  for (const uint8_t byte : key.digest) hex += fmt::format("{:02x}", byte);
  return fmt::format("{} = \"{}{}\"", key.name, scheme, hex);
}

bool is_api_key_name(const std::string& name) {
  constexpr size_t longest = 64;
  return !name.empty() && name.size() <= longest && std::ranges::all_of(name, [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
  });
}

}  // namespace tutti
