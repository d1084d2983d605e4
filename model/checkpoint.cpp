#include "model/checkpoint.hpp"

#include <fmt/format.h>

#include <utility>

#include "config/result.hpp"
#include "model/global_cmvn.hpp"
#include "model/input_file.hpp"
#include "model/torch_checkpoint.hpp"
#include "model/units.hpp"
#include "model/wenet_config.hpp"

namespace tutti {
namespace {

constexpr std::string_view mean_key = "encoder.global_cmvn.mean";
constexpr std::string_view istd_key = "encoder.global_cmvn.istd";

std::filesystem::path require_file(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file)) {
    throw SetupError(
        fmt::format("{}: no such file; a WeNet checkpoint directory holds final.pt, train.yaml, "
                    "units.txt and global_cmvn",
                    file.string()));
  }
  return file;
}

/// The vocabulary is stated three times; a model whose sizes differ would spell nonsense.
void check_vocabulary(const std::filesystem::path& directory, Checkpoint& checkpoint) {
  ConformerSpec& spec = checkpoint.spec;
  const int units = static_cast<int>(checkpoint.units.size());
  if (spec.vocab_size != 0 && spec.vocab_size != units) {
    throw SetupError(fmt::format("{}: has {} units; output_dim of train.yaml is {}",
                                 (directory / "units.txt").string(), units, spec.vocab_size));
  }
  spec.vocab_size = units;
  if (spec.blank_id >= units) {
    throw SetupError(fmt::format("{}: ctc_conf.ctc_blank_id is {}; accepted: an id below {}",
                                 (directory / "train.yaml").string(), spec.blank_id, units));
  }
  (void)checkpoint.weights.take("ctc.ctc_lo.weight", {units, spec.output_size});
}

/// Models are also trained or handed on without the decoder that their configuration describes.
void complete_decoder(const std::filesystem::path& directory, Checkpoint& checkpoint) {
  auto& decoder = checkpoint.spec.decoder;
  if (!decoder) return;
  const std::string first = decoder->bidirectional ? "decoder.left_decoder." : "decoder.";
  if (!checkpoint.weights.contains(first + "embed.0.weight")) return decoder.reset();
  const int vocabulary = checkpoint.spec.vocab_size;
  for (auto [key, id] : {std::pair("<sos>", &decoder->sos_id), std::pair("<eos>", &decoder->eos_id)}) {
    if (*id < 0) *id = vocabulary - 1;
    if (*id >= vocabulary) {
      throw SetupError(fmt::format("{}: tokenizer_conf.special_tokens.{} is {}; accepted: an id below {}",
                                   (directory / "train.yaml").string(), key, *id, vocabulary));
    }
  }
}

/// Checkpoints often hold the path of the machine they were trained on: then the file of that name beside
/// them.
std::filesystem::path find_cmvn(const std::filesystem::path& directory, const std::filesystem::path& stated) {
  const auto as_stated = directory / stated;
  return std::filesystem::is_regular_file(as_stated) ? as_stated
                                                     : require_file(directory / stated.filename());
}

void complete_cmvn(const std::filesystem::path& directory, const WenetConfig& config, WeightMap& weights) {
  const bool has_mean = weights.contains(mean_key);
  if (has_mean != weights.contains(istd_key)) {
    throw SetupError(fmt::format("{}: holds only one of {} and {}", weights.origin(), mean_key, istd_key));
  }
  if (has_mean) return;
  const int bins = config.spec.fbank.num_mel_bins;
  const GlobalCmvn cmvn = load_global_cmvn(find_cmvn(directory, config.cmvn_file), bins);
  weights.add(std::string(mean_key), host_tensor({bins}, cmvn.mean));
  weights.add(std::string(istd_key), host_tensor({bins}, cmvn.istd));
}

}  // namespace

Checkpoint load_wenet_checkpoint(const std::filesystem::path& directory) {
  // The cheap files first: a wrong one is reported before megabytes are read.
  const WenetConfig config = load_wenet_config(require_file(directory / "train.yaml"));
  std::vector<std::string> units = load_units(require_file(directory / "units.txt"));
  const auto absolute = std::filesystem::absolute(directory).lexically_normal();
  Checkpoint checkpoint{
      .name = (absolute.has_filename() ? absolute : absolute.parent_path()).filename().string(),
      .spec = config.spec,
      .weights = load_torch_checkpoint(require_file(directory / "final.pt")),
      .units = std::move(units),
  };
  check_vocabulary(directory, checkpoint);
  complete_decoder(directory, checkpoint);
  complete_cmvn(directory, config, checkpoint.weights);
  return checkpoint;
}

}  // namespace tutti
