#include "config/api_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

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

/// One key of a file, and how it is refused.
class KeyReader {
 public:
  KeyReader(const std::string& path, std::string name, toml::source_index line)
      : path_(path), line_(line), key_{.name = std::move(name)} {}

  ApiKey read(const toml::node& node) {
    if (!is_api_key_name(key_.name)) refuse("a name is up to 64 letters, digits, _ and -");
    if (const toml::table* const table = node.as_table()) {
      read_table(*table);
    } else {
      read_digest(node);
    }
    return std::move(key_);
  }

  [[noreturn]] void refuse(std::string_view why) const {
    throw SetupError(
        fmt::format("{}:{}: {}; a line is NAME = \"sha256:HEX\" or NAME = {{ key = \"sha256:HEX\", allow = "
                    "[\"stream\"], max_streams = 4 }}, as `tutti keygen NAME` writes it",
                    path_, line_, why));
  }

 private:
  void read_digest(const toml::node& node) {
    // The value is not shown: it might be a key that was stored by mistake.
    const auto digest = parse_digest(node.value_or(std::string_view()));
    if (!digest) refuse(fmt::format("the value of {} is not sha256: and 64 hexadecimal digits", key_.name));
    key_.digest = *digest;
  }

  void read_table(const toml::table& table) {
    const toml::node* const digest = table.get("key");
    if (digest == nullptr) refuse(fmt::format("{} has no key", key_.name));
    read_digest(*digest);
    for (const auto& [field, node] : table) {
      if (field.str() == "key") continue;
      field.str() == "allow" ? read_rights(node) : read_limit(field.str(), node);
    }
  }

  void read_rights(const toml::node& node) {
    const auto expected = [this] {
      refuse(fmt::format("allow of {} is a list of stream, upload, monitor, metrics and admin", key_.name));
    };
    const toml::array* const names = node.as_array();
    if (names == nullptr) return expected();
    key_.terms.allowed = Rights();
    for (const toml::node& name : *names) {
      const auto right = parse_right(name.value_or(std::string_view()));
      if (!right) return expected();
      key_.terms.allowed.add(*right);
    }
  }

  void read_limit(std::string_view name, const toml::node& node) {
    const auto* const field = std::ranges::find(limit_fields, name, &LimitField::name);
    if (field == std::end(limit_fields)) {
      refuse(
          fmt::format("{} has {}, which is none of key, allow, max_streams, max_requests_per_s and "
                      "max_audio_minutes_per_day",
                      key_.name, name));
    }
    const auto* const number = node.as_integer();
    if (number == nullptr || **number < 0 || **number > largest_limit) {
      refuse(fmt::format("{} of {} is a whole number from 1 to {}, or 0 for no limit", name, key_.name,
                         largest_limit));
    }
    key_.terms.limits.*field->value = static_cast<int>(**number);
  }

  const std::string& path_;
  toml::source_index line_;
  ApiKey key_;
};

}  // namespace

std::vector<ApiKey> load_api_keys(const std::string& path) {
  std::vector<ApiKey> keys;
  const toml::table table = parse_toml_file(path);
  for (const auto& [name, node] : table) {
    KeyReader reader(path, std::string(name.str()), name.source().begin.line);
    ApiKey key = reader.read(node);
    const auto same = std::ranges::find(keys, key.digest, &ApiKey::digest);
    if (same != keys.end()) reader.refuse(fmt::format("{} and {} are the same key", same->name, key.name));
    keys.push_back(std::move(key));
  }
  if (keys.empty()) {
    throw SetupError(fmt::format("{}: holds no keys; `tutti keygen NAME` makes one", path));
  }
  return keys;
}

std::string api_key_line(const ApiKey& key) {
  const std::string value = fmt::format("\"{}{}\"", scheme, to_hex(key.digest));
  if (key.terms == ClientTerms{}) return fmt::format("{} = {}", key.name, value);
  std::string line = fmt::format("{} = {{ key = {}", key.name, value);
  if (key.terms.allowed != ClientTerms{}.allowed) {
    std::string names;
    for (const Right right : every_right) {
      if (!key.terms.allowed.has(right)) continue;
      names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", to_string(right));
    }
    line += fmt::format(", allow = [{}]", names);
  }
  for (const LimitField& limit : limit_fields) {
    const int value_of_limit = key.terms.limits.*limit.value;
    if (value_of_limit != 0) line += fmt::format(", {} = {}", limit.name, value_of_limit);
  }
  return line + " }";
}

bool is_api_key_name(const std::string& name) {
  constexpr size_t longest = 64;
  return !name.empty() && name.size() <= longest && std::ranges::all_of(name, [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
  });
}

}  // namespace tutti
