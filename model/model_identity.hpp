#pragma once

#include <string>

#include "config/sha256.hpp"
#include "model/checkpoint.hpp"

namespace tutti {

/// Tells whether two models are the same: SHA-256 of what a checkpoint makes of audio. Wherever they are kept
/// and whatever they are called, models of one identity, used alike (engine/recognizer_identity.hpp), say the
/// same.
struct ModelIdentity {
  Sha256 digest{};
  bool operator==(const ModelIdentity&) const = default;
};

/// 64 hexadecimal digits.
[[nodiscard]] std::string to_string(const ModelIdentity& identity);

/// Of the weights as they are stored (names, types, shapes, values), the specification and the units. Reads
/// all of the weights, so ask only where the answer is used; and before a ConformerCtc is made of the
/// checkpoint, which widens what is stored as bfloat16.
[[nodiscard]] ModelIdentity identify_model(const Checkpoint& checkpoint);

}  // namespace tutti
