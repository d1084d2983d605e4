#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "gpu/tensor.hpp"
#include "model/weights.hpp"

namespace tutti {

/// Named tensors in name order.
using TensorMap = std::map<std::string, Tensor, std::less<>>;

/// Reads a whole .safetensors file (8-byte little-endian header length, JSON header, raw row-major data) of
/// F32 and I32 tensors, every offset checked. Throws SetupError naming the file, the tensor and the reason.
[[nodiscard]] TensorMap load_safetensors(const std::filesystem::path& file);

/// Maps such a file of F32 and BF16 tensors into memory: the weights are views of it and keep it mapped.
/// Refuses, besides, tensors that do not lie at a multiple of their element's size; those that
/// save_safetensors writes do.
[[nodiscard]] WeightMap map_safetensors(const std::filesystem::path& file);

/// Writes F32, I32 and BF16 tensors, with the header padded to 8 bytes and larger elements first, which
/// aligns them all. Throws SetupError when the file cannot be written.
void save_safetensors(const std::filesystem::path& file, const TensorViewMap& tensors);
void save_safetensors(const std::filesystem::path& file, const TensorMap& tensors);

}  // namespace tutti
