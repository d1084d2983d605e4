#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <string_view>

#include "app/commands.hpp"
#include "app/synthetic_model.hpp"
#include "model/bundle.hpp"
#include "model/model_loader.hpp"

namespace tutti {

namespace {

struct Options {
  std::string source;
  std::string target;
  std::string weights = "fp32";
};

constexpr std::string_view synthetic = "synthetic:";

Checkpoint load(std::string_view source) {
  if (!source.starts_with(synthetic)) return load_model(source);
  return synthetic_checkpoint(parse_model_size(source.substr(synthetic.size())));
}

void convert(const Options& options) {
  const Checkpoint checkpoint = load(options.source);
  const BundleSummary summary = save_bundle(options.target, checkpoint, parse_weight_type(options.weights));
  constexpr double mega = 1e6;
  std::cout << fmt::format("{}: {} tensors, {:.1f} MB of weights in {:.1f} MB\n", options.target,
                           summary.tensors, static_cast<double>(summary.source_bytes) / mega,
                           static_cast<double>(summary.stored_bytes) / mega);
}

}  // namespace

void add_convert(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("convert", "Write a model as a bundle");
  command->footer(
      "A bundle is a directory with config.json, model.safetensors (mapped into memory when it is loaded) "
      "and\n"
      "tokens.txt. --weights bf16 halves it; results are then close to, not equal to, those of the source.\n"
      "A server of a model with arbitrary weights, synthetic:12x256x2048h4v5000 for example, costs what one "
      "of "
      "a\n"
      "trained model of that size does, and says nothing sensible.");
  command->add_option("source", options->source, "WeNet model directory, a bundle, or synthetic:SIZE")
      ->required();
  command->add_option("target", options->target, "Directory to write; it is empty or does not exist yet")
      ->required();
  command->add_option("--weights", options->weights, "How weights are stored: fp32 or bf16")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  command->callback([options, &exit_code] {
    convert(*options);
    exit_code = 0;
  });
}

}  // namespace tutti
