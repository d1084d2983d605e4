#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iostream>
#include <vector>

#include "app/commands.hpp"
#include "config/result.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "model/bundle_config.hpp"
#include "model/conformer.hpp"
#include "model/model_loader.hpp"

namespace tutti {

namespace {

namespace fs = std::filesystem;

using Row = std::array<std::string, 9>;
const Row heading{"NAME",       "FAMILY",  "BLOCKS", "HEADS",    "TOKENS",
                  "PARAMETERS", "WEIGHTS", "SIZE",   "DIRECTORY"};
constexpr std::array left_aligned{true, true, false, false, false, false, true, false, true};

int64_t count_parameters(const TensorViewMap& tensors) {
  int64_t count = 0;
  for (const auto& [name, tensor] : tensors) {
    if (!name.ends_with(".pe")) count += tensor.shape.elements();  // position tables are not learnt
  }
  return count;
}

bool has_bf16(const TensorViewMap& tensors) {
  return std::ranges::any_of(tensors, [](const auto& entry) { return entry.second.dtype == DType::bf16; });
}

/// Only what this program could serve is listed as a model.
void check_weights(Checkpoint checkpoint) {
  const auto ops = make_cpu_ops();
  (void)ConformerCtc(std::move(checkpoint), *ops, 1);
}

Row describe(const fs::path& directory) {
  Checkpoint checkpoint = load_model(directory);
  constexpr double mega = 1e6;
  const ConformerSpec& spec = checkpoint.spec;
  const TensorViewMap tensors = checkpoint.weights.views();
  Row row{checkpoint.name,
          std::string(conformer_family),
          fmt::format("{}x{}", spec.num_blocks, spec.output_size),
          std::to_string(spec.attention_heads),
          std::to_string(spec.vocab_size),
          fmt::format("{:.1f} M", static_cast<double>(count_parameters(tensors)) / mega),
          has_bf16(tensors) ? "bf16" : "fp32",
          fmt::format("{:.1f} MB", static_cast<double>(fs::file_size(checkpoint.weights.origin())) / mega),
          directory.string()};
  check_weights(std::move(checkpoint));
  return row;
}

std::vector<fs::path> find_models(const fs::path& root) {
  if (!fs::is_directory(root)) throw SetupError(fmt::format("{}: no such directory", root.string()));
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(root, fs::directory_options::skip_permission_denied)) {
    if (find_model(entry.path())) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  if (find_model(root)) found.insert(found.begin(), root);
  return found;
}

void print_table(const std::vector<Row>& rows) {
  std::array<size_t, heading.size()> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += left_aligned[i] ? fmt::format("{:<{}}  ", row[i], widths[i])
                              : fmt::format("{:>{}}  ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::cout << line << '\n';
  }
}

int list_models(const fs::path& root) {
  std::vector<Row> rows{heading};
  std::vector<std::string> broken;
  for (const fs::path& directory : find_models(root)) {
    try {
      rows.push_back(describe(directory));
    } catch (const SetupError& why) {
      broken.emplace_back(why.what());
    }
  }
  if (rows.size() > 1) print_table(rows);
  for (const std::string& why : broken) std::cout << "broken: " << why << '\n';
  if (rows.size() == 1 && broken.empty()) {
    std::cout << root.string() << ": no models; a model is a directory with config.json or train.yaml\n";
  }
  return rows.size() > 1 ? 0 : 1;
}

}  // namespace

void add_models(CLI::App& app, int& exit_code) {
  const auto root = std::make_shared<std::string>();
  CLI::App* const command = app.add_subcommand("models", "List the models in a directory");
  command->footer(
      "Looks at the directory and those in it, and loads what it finds: a model that this program could not\n"
      "serve is listed with the reason. Exit status 1 when there is none that it could.");
  command->add_option("directory", *root, "Where the models are")->required();
  command->callback([root, &exit_code] { exit_code = list_models(*root); });
}

}  // namespace tutti
