#pragma once

#include <string>
#include <vector>

#include "config/client_terms.hpp"
#include "config/sha256.hpp"

namespace tutti {

/// A client that may use the server: what its key hashes to, never the key itself.
struct ApiKey {
  std::string name;  ///< in logs, instead of the key
  Sha256 digest{};
  ClientTerms terms = {};
};

/// Reads a key file: TOML, one `NAME = "sha256:64 HEX DIGITS"` a line for a key that may do everything but
/// administer, or a table where there is more to say:
///
///     alice = { key = "sha256:...", allow = ["stream"], max_streams = 4 }
///
/// with any of the limits of ClientLimits. Throws SetupError that names the file, the line and what is
/// accepted; a file without keys is refused, because it would let nobody in.
[[nodiscard]] std::vector<ApiKey> load_api_keys(const std::string& path);

/// The line that a key is stored as.
[[nodiscard]] std::string api_key_line(const ApiKey& key);

/// Whether a key may have this name: up to 64 letters, digits, `_` and `-`, which TOML needs no quotes for.
[[nodiscard]] bool is_api_key_name(const std::string& name);

}  // namespace tutti
