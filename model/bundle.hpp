#pragma once

#include <cstdint>
#include <filesystem>

#include "gpu/weight_type.hpp"
#include "model/checkpoint.hpp"

namespace tutti {

// A bundle is a directory that says in three files all that a model is made of: config.json,
// model.safetensors and tokens.txt ("token id" a line).

/// Reads a bundle. The weights are views of model.safetensors, which stays mapped as long as they live.
/// Throws SetupError naming the file and the key for anything that is missing or not supported.
[[nodiscard]] Checkpoint load_bundle(const std::filesystem::path& directory);

struct BundleSummary {
  size_t tensors = 0;
  uint64_t source_bytes = 0;  ///< of the checkpoint's tensors
  uint64_t stored_bytes = 0;  ///< of model.safetensors
};

/// Writes the checkpoint as a bundle into a directory that does not exist or is empty. It is written beside
/// `directory`, read back, and then renamed: on failure, which throws SetupError, nothing is left.
///
/// With bf16, weights of two or more dimensions are rounded to it (nearest, halves to even). Everything else
/// stays float32: vectors (norms, biases, feature statistics) are a hundredth of the bytes, and an error in
/// one shifts every activation of its channel instead of averaging out in a sum; position tables have to be
/// exact far into a stream. Decoders' position tables are left out when they equal the encoder's bit for bit.
/// int8 is made from either when a model is loaded, and is not stored.
BundleSummary save_bundle(const std::filesystem::path& directory, const Checkpoint& checkpoint,
                          WeightType type);

}  // namespace tutti
