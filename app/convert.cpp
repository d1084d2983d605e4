#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "app/commands.hpp"
#include "model/bundle.hpp"
#include "model/model_loader.hpp"

namespace tutti {

namespace {

struct Options {
  std::string source;
  std::string target;
  std::string weights = "fp32";
};

void convert(const Options& options) {
  const Checkpoint checkpoint = load_model(options.source);
  const BundleSummary summary = save_bundle(options.target, checkpoint,
                                            options.weights == "bf16" ? WeightType::bf16 : WeightType::fp32);
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
      "tokens.txt. --weights bf16 halves it; results are then close to, not equal to, those of the source.");
  command->add_option("source", options->source, "WeNet model directory, or a bundle")->required();
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
