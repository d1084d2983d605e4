#pragma once

#include <filesystem>

#include "model/weights.hpp"

namespace tutti {

/// Reads the state dict of a `torch.save` file: an uncompressed zip with a pickle of protocol 2 and one entry
/// per storage. The state dict is the pickle itself, or under its key `model` or `state_dict`. The pickle
/// reader builds only tensors, dicts, lists, tuples, strings and numbers, and refuses every other opcode and
/// global by name: nothing in the file is executed. Every offset and size is checked against the file.
/// float32 tensors are loaded, those of integer type (batch counters) are skipped; other floats and
/// non-contiguous views are refused. Throws SetupError naming file, key and reason.
[[nodiscard]] WeightMap load_torch_checkpoint(const std::filesystem::path& file);

}  // namespace tutti
