#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "model/checkpoint.hpp"

namespace tutti {

/// What this program calls the models it can run: WeNet's U2 / U2++ Conformer with a CTC head.
inline constexpr std::string_view conformer_family = "wenet-conformer-ctc";

/// What a bundle's config.json says.
struct BundleConfig {
  std::string name;
  ConformerSpec spec;
};

/// Reads a config.json. Throws SetupError naming the file, the key and what is accepted for anything that is
/// missing, unknown, of another kind, or out of range.
[[nodiscard]] BundleConfig read_bundle_config(const std::filesystem::path& file);

/// The text of a config.json that reads back as `config`.
[[nodiscard]] std::string render_bundle_config(const BundleConfig& config);

}  // namespace tutti
