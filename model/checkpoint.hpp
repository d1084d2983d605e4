#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "audio/fbank.hpp"
#include "model/weights.hpp"

namespace tutti {

/// The attention decoder that rescores what the CTC head proposes: WeNet's transformer (U2) or bitransformer
/// (U2++), which has a second decoder that reads a hypothesis from its end.
struct DecoderSpec {
  bool bidirectional = false;
  int num_blocks = 6;
  int reverse_num_blocks = 0;  ///< of the second decoder
  int attention_heads = 4;
  int linear_units = 2048;
  float norm_eps = 1e-5F;
  int sos_id = -1;  ///< the token before a hypothesis
  int eos_id = -1;  ///< the token after it
  // How a hypothesis is scored, unless the server is told otherwise (decode/rescoring.hpp).
  float ctc_weight = 0.5F;
  float reverse_weight = 0;
};

/// What a streaming U2 / U2++ Conformer with a CTC head is made of.
struct ConformerSpec {
  int num_blocks = 12;
  int output_size = 256;
  int attention_heads = 4;
  int linear_units = 2048;
  int cnn_module_kernel = 15;
  bool batch_norm = false;  ///< in the convolution module; else layer norm
  int vocab_size = 0;
  int blank_id = 0;
  FbankOptions fbank;
  float norm_eps = 1e-5F;
  std::optional<DecoderSpec> decoder;  ///< none when the model has none that can be run
};

/// A model directory in memory.
struct Checkpoint {
  std::string name;  ///< the directory's own name; a bundle's is in its config.json
  ConformerSpec spec;
  WeightMap weights;
  std::vector<std::string> units;  ///< spelling by token id
};

/// Reads a WeNet directory as it is: final.pt, train.yaml (both layouts), units.txt, global_cmvn.
/// Normalisation statistics come from the checkpoint's `encoder.global_cmvn.*`, else from the global_cmvn
/// file, and are in `weights` under those two names either way. Throws SetupError naming the file and the key
/// for anything that is missing or not supported.
[[nodiscard]] Checkpoint load_wenet_checkpoint(const std::filesystem::path& directory);

}  // namespace tutti
