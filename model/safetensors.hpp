#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gpu/tensor.hpp"

namespace tutti {

/// Named tensors in name order; F32 and I32.
using TensorMap = std::map<std::string, Tensor, std::less<>>;

/// Reads a whole .safetensors file (8-byte little-endian header length, JSON header, raw row-major data),
/// every offset checked. Throws SetupError naming the file, the tensor and the reason.
[[nodiscard]] TensorMap load_safetensors(const std::filesystem::path& file);

/// Writes one, with the header padded to 8 bytes. Throws SetupError when the file cannot be written.
void save_safetensors(const std::filesystem::path& file, const TensorMap& tensors);

}  // namespace tutti
