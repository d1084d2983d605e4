#include "model/model_identity.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "config/sha256_stream.hpp"
#include "model/bundle_config.hpp"

namespace tutti {
namespace {

/// Of a sequence of parts: each is preceded by its length, so that where one ends is part of it.
class PartsHash {
 public:
  void add(std::span<const std::byte> part) {
    const uint64_t size = part.size();
    stream_.add(std::as_bytes(std::span(&size, 1)));
    stream_.add(part);
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  [[nodiscard]] Sha256 finish() { return stream_.finish(); }

 private:
  Sha256Stream stream_;
};

}  // namespace

std::string to_string(const ModelIdentity& identity) { return to_hex(identity.digest); }

ModelIdentity identify_model(const Checkpoint& checkpoint) {
  PartsHash hash;
  // Without the name, which changes nothing.
  hash.add(render_bundle_config({.name = "", .spec = checkpoint.spec}));
  for (const std::string& unit : checkpoint.units) hash.add(unit);
  for (const auto& [name, tensor] : checkpoint.weights.views()) {
    hash.add(fmt::format("{} {} {}", name, static_cast<int>(tensor.dtype), to_string(tensor.shape)));
    hash.add({tensor.data, tensor.bytes()});
  }
  return {.digest = hash.finish()};
}

}  // namespace tutti
