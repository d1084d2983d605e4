#include "model/model_loader.hpp"

#include <fmt/format.h>

#include "config/result.hpp"
#include "model/bundle.hpp"

namespace tutti {

std::optional<ModelFormat> find_model(const std::filesystem::path& directory) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(directory / "config.json", ignored)) return ModelFormat::bundle;
  if (std::filesystem::is_regular_file(directory / "train.yaml", ignored)) return ModelFormat::wenet;
  return std::nullopt;
}

Checkpoint load_model(const std::filesystem::path& directory) {
  const auto format = find_model(directory);
  if (!format) {
    std::error_code ignored;
    throw SetupError(fmt::format(
        "{}: {}; a model is a directory with config.json (a bundle: config.json, model.safetensors, "
        "tokens.txt) "
        "or train.yaml (a WeNet checkpoint: final.pt, train.yaml, units.txt, global_cmvn)",
        directory.string(),
        std::filesystem::is_directory(directory, ignored) ? "holds neither config.json nor train.yaml"
                                                          : "no such directory"));
  }
  return *format == ModelFormat::bundle ? load_bundle(directory) : load_wenet_checkpoint(directory);
}

}  // namespace tutti
