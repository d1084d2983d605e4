#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "model/checkpoint.hpp"

namespace tutti {

enum class ModelFormat : uint8_t { bundle, wenet };

/// What the directory holds, told by config.json (a bundle) or train.yaml (a WeNet checkpoint); nothing when
/// it holds neither.
[[nodiscard]] std::optional<ModelFormat> find_model(const std::filesystem::path& directory);

/// Reads the model in a directory, whichever format it has. Throws SetupError naming the file and the key for
/// anything that is missing or not supported.
[[nodiscard]] Checkpoint load_model(const std::filesystem::path& directory);

}  // namespace tutti
