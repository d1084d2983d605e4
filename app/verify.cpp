#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "app/commands.hpp"
#include "app/cpu_level_option.hpp"
#include "app/golden.hpp"
#include "app/golden_decoder.hpp"
#include "config/engine_config.hpp"
#include "gpu/cpu/level.hpp"
#include "gpu/device.hpp"
#include "model/model_loader.hpp"

namespace tutti {

namespace {

std::string verdict(const GoldenComparison::Row& row) {
  const std::string limit = row.tolerance == 0 ? "exact" : fmt::format("<= {:.0e}", row.tolerance);
  return row.passes() ? limit : limit + "  FAILED";
}

struct Options {
  std::string checkpoint;
  std::string golden;
  std::string device = "cpu";
  std::string dump;
  std::string weights = "fp32";
  std::string cpu_level = EngineConfig{}.cpu_level;
};

int verify(const Options& options) {
  cpu::use_level(options.cpu_level);
  const TensorMap golden = load_safetensors(options.golden);
  std::string note;
  const Device device = select_devices(options.device, 1, note).front();
  const WeightType weights = parse_weight_type(options.weights);
  const std::unique_ptr<Ops> ops = open_device(device, weights);
  Checkpoint loaded = load_model(options.checkpoint);
  const int hypothesis_tokens = loaded.spec.decoder ? golden_hypothesis_tokens(golden) : 0;
  const auto model = std::make_shared<const ConformerCtc>(std::move(loaded), *ops, golden_positions(golden),
                                                          hypothesis_tokens);
  const TensorMap computed = recompute_golden(model, golden, device);
  if (!options.dump.empty()) save_safetensors(options.dump, computed);

  const GoldenComparison comparison = compare_golden(golden, computed);
  const bool judged = weights == WeightType::fp32;
  double log_probs = 0;
  for (const auto& row : comparison.rows) {
    std::cout << fmt::format("{:<52} {:>14}  {:9.2e}  {}\n", row.name, row.shape, row.max_difference,
                             judged ? verdict(row) : "");
    if (row.name.ends_with("ctc_log_probs")) log_probs = std::max(log_probs, row.max_difference);
  }
  std::cout << fmt::format("weights {}: CTC log-probabilities differ by {:.1e} at most\n",
                           weight_type_name(weights), log_probs);
  std::cout << fmt::format("compared {}, skipped {}\n", comparison.rows.size(), comparison.skipped.size());
  for (const auto& name : comparison.skipped) std::cout << "skipped " << name << '\n';
  for (const auto& name : comparison.missing) std::cout << "not computed " << name << "  FAILED\n";
  if (comparison.rows.empty()) std::cout << options.golden << " holds nothing that can be compared\n";
  const bool passes = judged ? comparison.passes() : comparison.missing.empty();
  return passes && !comparison.rows.empty() ? 0 : 1;
}

}  // namespace

void add_verify(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("verify", "Compare this build with stored reference results");
  command->footer(
      "Runs the features stored in the golden file through every mode stored there (whole utterance, "
      "streamed with\n"
      "several chunk sizes and left contexts) and prints the largest difference per tensor. Exit status 1 "
      "when one\n"
      "is past its tolerance. Tolerances are those of fp32: with other weights the differences are what "
      "rounding "
      "costs,\n"
      "and are not judged.");
  command->add_option("checkpoint", options->checkpoint, "Model directory")->required();
  command->add_option("golden", options->golden, "Reference results, .safetensors")->required();
  command->add_option("--device", options->device, "What computes: cpu or cuda:N")->capture_default_str();
  command->add_option("--dump", options->dump,
                      "Write what was computed, under the golden names, to this file");
  command->add_option("--weights", options->weights, "How weight matrices are held")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16", "int8", "fp8"}))
      ->capture_default_str();
  add_cpu_level(*command, options->cpu_level);
  command->callback([options, &exit_code] { exit_code = verify(*options); });
}

}  // namespace tutti
