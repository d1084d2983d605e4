#pragma once

#include <filesystem>

#include "model/checkpoint.hpp"

namespace tutti {

/// What Tutti needs of a WeNet train.yaml, in its current layout or the one before tokenizer_conf and
/// cmvn_conf.
struct WenetConfig {
  /// vocab_size is 0, and the decoder's sos_id and eos_id are -1, when the file does not state them.
  ConformerSpec spec;
  std::filesystem::path cmvn_file;  ///< as written; "global_cmvn" when not stated
};

/// Throws SetupError naming file, key, value and what is accepted for everything that is missing or would
/// need a different encoder. Absent keys have WeNet's defaults.
[[nodiscard]] WenetConfig load_wenet_config(const std::filesystem::path& file);

}  // namespace tutti
