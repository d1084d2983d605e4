#include "model/bundle.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <vector>

#include "config/result.hpp"
#include "model/bfloat16.hpp"
#include "model/bundle_config.hpp"
#include "model/input_file.hpp"
#include "model/position_table.hpp"
#include "model/safetensors.hpp"
#include "model/units.hpp"

namespace tutti {
namespace {

constexpr const char* config_file = "config.json";
constexpr const char* weights_file = "model.safetensors";
constexpr const char* tokens_file = "tokens.txt";

std::filesystem::path require_file(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file)) {
    throw SetupError(fmt::format("{}: no such file; a bundle holds {}, {} and {}", file.string(), config_file,
                                 weights_file, tokens_file));
  }
  return file;
}

/// Removed with the object unless it has been published.
class UnfinishedDirectory {
 public:
  explicit UnfinishedDirectory(std::filesystem::path target)
      : target_(std::move(target)),
        path_(target_.parent_path() / fmt::format(".{}.{}", target_.filename().string(), ::getpid())) {
    std::error_code error;
    if (!std::filesystem::create_directory(path_, error)) {
      throw SetupError(fmt::format("{}: cannot be written: {}: {}", target_.string(), path_.string(),
                                   error ? error.message() : "is in the way"));
    }
  }
  ~UnfinishedDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  UnfinishedDirectory(const UnfinishedDirectory&) = delete;
  UnfinishedDirectory& operator=(const UnfinishedDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  void publish() {
    std::error_code error;
    std::filesystem::rename(path_, target_, error);  // replaces an empty directory, and no other
    if (error) {
      throw SetupError(fmt::format("{}: cannot be written: {}", target_.string(), error.message()));
    }
    path_.clear();
  }

 private:
  std::filesystem::path target_;
  std::filesystem::path path_;
};

std::filesystem::path require_free(const std::filesystem::path& directory) {
  std::error_code error;
  const auto status = std::filesystem::status(directory, error);
  const bool usable =
      !std::filesystem::exists(status) ||
      (std::filesystem::is_directory(status) && std::filesystem::is_empty(directory, error) && !error);
  if (!usable) {
    throw SetupError(fmt::format("{}: is not free; accepted: a directory that is empty or does not exist",
                                 directory.string()));
  }
  const auto absolute = std::filesystem::absolute(directory).lexically_normal();
  return absolute.has_filename() ? absolute : absolute.parent_path();
}

void write_text(const std::filesystem::path& file, std::string_view text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  if (!(out << text).flush()) throw SetupError(fmt::format("{}: cannot be written", file.string()));
}

std::string render_tokens(const std::vector<std::string>& units) {
  std::string text;
  for (size_t id = 0; id < units.size(); ++id) text += fmt::format("{} {}\n", units[id], id);
  return text;
}

bool same_bits(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape && std::memcmp(a.data, b.data, a.bytes()) == 0;
}

/// WeNet stores the encoder's table again for each decoder.
void drop_repeated_position_tables(TensorViewMap& tensors) {
  const auto encoder = tensors.find(encoder_position_table);
  if (encoder == tensors.end()) return;
  std::erase_if(tensors, [&](const auto& entry) {
    return entry.first.ends_with(".pe") && entry.first != encoder_position_table &&
           same_bits(entry.second, encoder->second);
  });
}

bool is_rounded(std::string_view name, const TensorView& tensor) {
  return tensor.dtype == DType::f32 && tensor.shape.rank() >= 2 && name.ends_with(".weight");
}

uint64_t total_bytes(const TensorViewMap& tensors) {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.bytes();
  return bytes;
}

void write_weights(const std::filesystem::path& file, TensorViewMap tensors, WeightType type) {
  std::vector<Tensor> converted;
  for (auto& [name, tensor] : tensors) {
    if (type == WeightType::bf16 && is_rounded(name, tensor)) {
      converted.push_back(narrow_to_bfloat16(tensor));
      tensor = converted.back();
    } else if (type == WeightType::fp32 && tensor.dtype == DType::bf16) {
      converted.push_back(widen_to_float(tensor));
      tensor = converted.back();
    }
  }
  save_safetensors(file, tensors);
}

}  // namespace

Checkpoint load_bundle(const std::filesystem::path& directory) {
  BundleConfig config = read_bundle_config(require_file(directory / config_file));
  const auto tokens = require_file(directory / tokens_file);
  Checkpoint checkpoint{
      .name = std::move(config.name),
      .spec = config.spec,
      .weights = map_safetensors(require_file(directory / weights_file)),
      .units = load_units(tokens),
  };
  if (checkpoint.units.size() != static_cast<size_t>(config.spec.vocab_size)) {
    throw SetupError(fmt::format("{}: has {} tokens; vocab_size of {} is {}", tokens.string(),
                                 checkpoint.units.size(), config_file, config.spec.vocab_size));
  }
  return checkpoint;
}

BundleSummary save_bundle(const std::filesystem::path& directory, const Checkpoint& checkpoint,
                          WeightType type) {
  UnfinishedDirectory unfinished(require_free(directory));
  const std::filesystem::path& path = unfinished.path();
  TensorViewMap tensors = checkpoint.weights.views();
  BundleSummary summary{.source_bytes = total_bytes(tensors)};
  drop_repeated_position_tables(tensors);
  summary.tensors = tensors.size();
  write_text(path / config_file, render_bundle_config({checkpoint.name, checkpoint.spec}));
  write_text(path / tokens_file, render_tokens(checkpoint.units));
  write_weights(path / weights_file, std::move(tensors), type);
  summary.stored_bytes = std::filesystem::file_size(path / weights_file);
  (void)load_bundle(path);  // what cannot be read is not handed over
  unfinished.publish();
  return summary;
}

}  // namespace tutti
