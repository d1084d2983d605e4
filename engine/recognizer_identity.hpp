#pragma once

#include <string>

#include "config/engine_config.hpp"
#include "model/model_identity.hpp"

namespace tutti {

/// What decides the results of an engine, and whether a stream of one can go on on another: the model, and
/// how it is used. The instruction set and the kind of device are not part of it: with another one the last
/// bits of a result may differ.
struct RecognizerIdentity {
  ModelIdentity model;
  std::string settings;  ///< recognition_settings
  bool operator==(const RecognizerIdentity&) const = default;
};

/// The fields of `config` that decide results, as "weights=fp32 decoder=prefix beam=10 ...".
[[nodiscard]] std::string recognition_settings(const EngineConfig& config);

/// What is the same for equal identities alone.
[[nodiscard]] std::string to_string(const RecognizerIdentity& identity);

/// In which way `found` is not `wanted`, for a person; empty when it is.
[[nodiscard]] std::string difference(const RecognizerIdentity& wanted, const RecognizerIdentity& found);

}  // namespace tutti
