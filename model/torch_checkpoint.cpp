#include "model/torch_checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "config/result.hpp"
#include "model/input_file.hpp"
#include "model/pickle_reader.hpp"
#include "model/zip_reader.hpp"

namespace tutti {
namespace {

/// Tied weights share a storage and are copied once each; a file may not turn that into unbounded memory.
constexpr uint64_t max_growth = 4;

/// Turns the pickle's description of a state dict into tensors.
class StateDictReader {
 public:
  explicit StateDictReader(const std::filesystem::path& file)
      : zip_(file), weights_(file.string()), prefix_(find_prefix()) {
    refuse_big_endian();
    const std::string name = prefix_ + "data.pkl";
    const auto entry = zip_.find(name);
    if (!entry) refuse(fmt::format("entry {} is missing", printable(name)));
    if (entry->size > Pickle::max_bytes) {
      refuse(fmt::format("data.pkl has {} bytes; at most {} are accepted", entry->size, Pickle::max_bytes));
    }
    std::string bytes(entry->size, '\0');
    zip_.read(*entry, 0, std::as_writable_bytes(std::span(bytes)));
    const Pickle pickle(weights_.origin() + ": data.pkl", std::move(bytes));
    for (const auto& [key, value] : state_dict(pickle.root()).items) add(key, value);
  }

  WeightMap take() { return std::move(weights_); }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw SetupError(fmt::format("{}: {}", weights_.origin(), why));
  }

  /// torch.save puts everything under one folder, named after the file it first had: "final/data.pkl".
  [[nodiscard]] std::string find_prefix() const {
    constexpr std::string_view suffix = "/data.pkl";
    for (uint64_t i = 0; i < zip_.count(); ++i) {
      const std::string_view name = zip_.name(i);
      if (name.ends_with(suffix) && name.find('/') == name.size() - suffix.size()) {
        return std::string(name.substr(0, name.size() - suffix.size() + 1));
      }
    }
    refuse("holds no NAME/data.pkl; a file written by torch.save is expected");
  }

  void refuse_big_endian() const {
    const auto entry = zip_.find(prefix_ + "byteorder");
    if (!entry) return;
    std::string order(std::min<uint64_t>(entry->size, 16), '\0');
    zip_.read(*entry, 0, std::as_writable_bytes(std::span(order)));
    if (order != "little") refuse(fmt::format("byte order {} is not supported; little is", printable(order)));
  }

  /// The dict of tensors itself, or under the key that training checkpoints put it under.
  [[nodiscard]] const PickleDict& state_dict(const PickleValue& root) const {
    const auto as_dict = [](const PickleValue& value) -> const PickleDict* {
      PickleDict* const* dict = std::get_if<PickleDict*>(&value);
      return dict == nullptr ? nullptr : *dict;
    };
    const PickleDict* dict = as_dict(root);
    if (dict == nullptr) refuse(fmt::format("holds {}; a dict of tensors is expected", type_name(root)));
    for (const auto& [key, value] : dict->items) {
      const auto* name = std::get_if<std::string_view>(&key);
      if (name == nullptr || as_dict(value) == nullptr) continue;
      if (*name == "model" || *name == "state_dict") return *as_dict(value);
    }
    return *dict;
  }

  void add(const PickleValue& key, const PickleValue& value) {
    const auto* name = std::get_if<std::string_view>(&key);
    if (name == nullptr) refuse(fmt::format("a key is {}; a string is expected", type_name(key)));
    PickleTensor* const* tensor = std::get_if<PickleTensor*>(&value);
    if (tensor == nullptr) {
      refuse(fmt::format("{} is {}; a tensor is expected", printable(*name), type_name(value)));
    }
    const PickleGlobal& type = *(*tensor)->storage->type;
    if (type.integral) return;
    if (type.element != "float32") {
      refuse(fmt::format("{} is of type {}; float32 is expected: save model.float().state_dict()",
                         printable(*name), type.element));
    }
    weights_.add(std::string(*name), read(printable(*name), **tensor));
  }

  [[nodiscard]] Tensor read(const std::string& name, const PickleTensor& tensor) {
    const Shape shape = checked_shape(tensor.size, fmt::format("{}: {}", weights_.origin(), name));
    check_contiguous(name, shape, tensor.stride);
    const PickleStorage& storage = *tensor.storage;
    const int64_t elements = shape.elements();
    if (tensor.offset < 0 || tensor.offset > storage.elements ||
        elements > storage.elements - tensor.offset) {
      refuse(fmt::format("{} has {} elements at offset {} of a storage of {}", name, elements, tensor.offset,
                         storage.elements));
    }
    const ZipReader::Entry entry = storage_entry(name, storage);
    Tensor out = allocate(name, shape);
    const TensorView view = out;
    zip_.read(entry, static_cast<uint64_t>(tensor.offset) * sizeof(float), {view.data, view.bytes()});
    return out;
  }

  void check_contiguous(const std::string& name, const Shape& shape,
                        const std::vector<int64_t>& stride) const {
    if (stride.size() != static_cast<size_t>(shape.rank())) {
      refuse(fmt::format("{} has {} dimensions and {} strides", name, shape.rank(), stride.size()));
    }
    int64_t expected = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      // The stride of an axis of one entry is never used, and an empty tensor has no stride that matters.
      if (shape[axis] > 1 && shape.elements() > 0 && stride[static_cast<size_t>(axis)] != expected) {
        refuse(fmt::format("{} is not contiguous; save tensor.contiguous()", name));
      }
      expected *= shape[axis];
    }
  }

  [[nodiscard]] ZipReader::Entry storage_entry(const std::string& name, const PickleStorage& storage) const {
    const std::string path = fmt::format("{}data/{}", prefix_, storage.key);
    const auto entry = zip_.find(path);
    if (!entry) refuse(fmt::format("{} refers to entry {}, which is missing", name, printable(path)));
    if (entry->size % sizeof(float) != 0 ||
        entry->size / sizeof(float) != static_cast<uint64_t>(storage.elements)) {
      refuse(fmt::format("{} refers to entry {} as {} float32 values, but it has {} bytes", name,
                         printable(path), storage.elements, entry->size));
    }
    return *entry;
  }

  [[nodiscard]] Tensor allocate(const std::string& name, const Shape& shape) {
    bytes_ += static_cast<uint64_t>(shape.elements()) * sizeof(float);
    if (bytes_ > max_growth * zip_.file_size()) {
      refuse(fmt::format("{} brings the tensors to {} bytes, more than {} times the file's", name, bytes_,
                         max_growth));
    }
    return host_tensor(DType::f32, shape);
  }

  ZipReader zip_;
  WeightMap weights_;
  std::string prefix_;  ///< "final/"
  uint64_t bytes_ = 0;  ///< of all tensors so far
};

}  // namespace

WeightMap load_torch_checkpoint(const std::filesystem::path& file) { return StateDictReader(file).take(); }

}  // namespace tutti
