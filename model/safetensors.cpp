#include "model/safetensors.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <set>
#include <vector>

#include "config/json_writer.hpp"
#include "config/result.hpp"
#include "model/input_file.hpp"
#include "model/mapped_file.hpp"

namespace tutti {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor data is used as it lies in the file");

constexpr uint64_t max_header_bytes = 16 << 20;
constexpr size_t header_alignment = 8;

struct StoredType {
  std::string_view name;
  DType dtype;
};
constexpr StoredType stored_f32{"F32", DType::f32};
constexpr StoredType stored_i32{"I32", DType::i32};
constexpr StoredType stored_bf16{"BF16", DType::bf16};
constexpr std::array stored_types{stored_f32, stored_i32, stored_bf16};

struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  uint64_t begin;  ///< from the first byte after the header
  uint64_t end;

  [[nodiscard]] uint64_t bytes() const { return static_cast<uint64_t>(shape.elements()) * size_of(dtype); }
};

class SafetensorsReader {
 public:
  SafetensorsReader(const std::filesystem::path& file, std::array<StoredType, 2> accepted)
      : origin_(file.string()), accepted_(accepted), file_(std::make_shared<const MappedFile>(file)) {
    const std::string_view header = read_header();
    parse_header(header);
    data_ = file_->bytes().subspan(sizeof(uint64_t) + header.size());
    check_tiling(data_.size());
  }

  [[nodiscard]] TensorMap copies() const {
    TensorMap tensors;
    for (const Entry& entry : entries_) {
      Tensor tensor = host_tensor(entry.dtype, entry.shape);
      if (entry.bytes() > 0) std::memcpy(tensor.view().data, data_.data() + entry.begin, entry.bytes());
      tensors.emplace(entry.name, std::move(tensor));
    }
    return tensors;
  }

  [[nodiscard]] WeightMap views() const {
    WeightMap weights(origin_);
    for (const Entry& entry : entries_) {
      const std::byte* begin = data_.data() + entry.begin;
      if (reinterpret_cast<uintptr_t>(begin) % size_of(entry.dtype) != 0) {
        refuse(fmt::format("{} does not lie at a multiple of {} bytes; convert the model again",
                           printable(entry.name), size_of(entry.dtype)));
      }
      // A view has no form for constant data. To write would be a fault, as the pages are mapped read-only.
      weights.add(entry.name, TensorView{const_cast<std::byte*>(begin), entry.dtype, entry.shape}, file_);
    }
    return weights;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw SetupError(fmt::format("{}: {}", origin_, why));
  }

  [[nodiscard]] std::string_view read_header() const {
    const std::span<const std::byte> bytes = file_->bytes();
    uint64_t length = 0;
    if (bytes.size() < sizeof(length)) refuse("is shorter than the 8 bytes of a header length");
    std::memcpy(&length, bytes.data(), sizeof(length));
    const uint64_t available = std::min(bytes.size() - sizeof(length), max_header_bytes);
    if (length > available) {
      refuse(fmt::format("states a header of {} bytes; at most {} are possible", length, available));
    }
    return {reinterpret_cast<const char*>(bytes.data()) + sizeof(length), length};
  }

  void parse_header(std::string_view header) {
    simdjson::dom::parser parser;
    simdjson::dom::object root;
    if (const auto error = parser.parse(simdjson::padded_string(header)).get(root)) {
      refuse(fmt::format("the header is not a JSON object: {}", simdjson::error_message(error)));
    }
    std::set<std::string_view> names;
    for (const auto& [name, value] : root) {
      if (!names.insert(name).second) refuse(fmt::format("{} appears twice", printable(name)));
      if (name == "__metadata__") continue;
      try {
        entries_.push_back(parse_entry(name, value));
      } catch (const simdjson::simdjson_error& error) {
        refuse(
            fmt::format("{}: dtype, shape and data_offsets are expected: {}", printable(name), error.what()));
      }
    }
  }

  [[nodiscard]] Entry parse_entry(std::string_view name, const simdjson::dom::element& value) const {
    const std::string_view dtype = value["dtype"];
    const auto* type = std::ranges::find(accepted_, dtype, &StoredType::name);
    if (type == accepted_.end()) {
      refuse(fmt::format("{} is of type {}; {} and {} are supported", printable(name), printable(dtype),
                         accepted_[0].name, accepted_[1].name));
    }
    std::vector<int64_t> extents;
    for (const int64_t extent : value["shape"].get_array()) extents.push_back(extent);
    const simdjson::dom::array offsets = value["data_offsets"];
    if (offsets.size() != 2) refuse(fmt::format("{}: data_offsets is not a pair", printable(name)));
    return {std::string(name), type->dtype,
            checked_shape(extents, fmt::format("{}: {}", origin_, printable(name))), offsets.at(0),
            offsets.at(1)};
  }

  /// Tensors lie one after the other and fill the file: nothing overlaps and nothing is out of range.
  void check_tiling(uint64_t data_bytes) {
    std::ranges::stable_sort(entries_, {},
                             [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
    uint64_t expected = 0;
    for (const Entry& entry : entries_) {
      if (entry.begin != expected) {
        refuse(fmt::format("{} starts at byte {} of the data; {} is expected", printable(entry.name),
                           entry.begin, expected));
      }
      if (entry.end < entry.begin || entry.end - entry.begin != entry.bytes()) {
        refuse(fmt::format("{} has bytes {} to {} of the data; its shape {} needs {}", printable(entry.name),
                           entry.begin, entry.end, to_string(entry.shape), entry.bytes()));
      }
      expected = entry.end;
      if (expected > data_bytes) {
        refuse(fmt::format("{} ends at byte {} of {} bytes of data", printable(entry.name), expected,
                           data_bytes));
      }
    }
    if (expected != data_bytes) {
      refuse(fmt::format("has {} bytes of data after the last tensor", data_bytes - expected));
    }
  }

  std::string origin_;
  std::array<StoredType, 2> accepted_;
  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> data_;
  std::vector<Entry> entries_;
};

using NamedView = TensorViewMap::value_type;

/// Larger elements first, so that each tensor lies at a multiple of its element's size.
std::vector<const NamedView*> storage_order(const TensorViewMap& tensors) {
  std::vector<const NamedView*> order;
  for (const NamedView& tensor : tensors) order.push_back(&tensor);
  std::ranges::stable_sort(order, std::greater{},
                           [](const NamedView* tensor) { return size_of(tensor->second.dtype); });
  return order;
}

std::string make_header(const std::vector<const NamedView*>& order) {
  JsonWriter json;
  json.begin_object();
  int64_t begin = 0;
  for (const NamedView* tensor : order) {
    const auto& [name, view] = *tensor;
    const auto end = begin + static_cast<int64_t>(view.bytes());
    json.key(name).begin_object();
    json.key("dtype").string(std::ranges::find(stored_types, view.dtype, &StoredType::dtype)->name);
    json.key("shape").begin_array();
    for (int axis = 0; axis < view.shape.rank(); ++axis) json.integer(view.shape[axis]);
    json.end_array().key("data_offsets").begin_array().integer(begin).integer(end).end_array().end_object();
    begin = end;
  }
  std::string header = std::move(json.end_object()).take();
  header.resize((header.size() + header_alignment - 1) / header_alignment * header_alignment, ' ');
  return header;
}

}  // namespace

TensorMap load_safetensors(const std::filesystem::path& file) {
  return SafetensorsReader(file, {stored_f32, stored_i32}).copies();
}

WeightMap map_safetensors(const std::filesystem::path& file) {
  return SafetensorsReader(file, {stored_f32, stored_bf16}).views();
}

void save_safetensors(const std::filesystem::path& file, const TensorViewMap& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (std::ranges::find(stored_types, tensor.dtype, &StoredType::dtype) == stored_types.end()) {
      throw SetupError(fmt::format("{}: {} is neither F32, I32 nor BF16", file.string(), printable(name)));
    }
  }
  const std::vector<const NamedView*> order = storage_order(tensors);
  const std::string header = make_header(order);
  const uint64_t length = header.size();
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(&length), sizeof(length));
  out.write(header.data(), static_cast<std::streamsize>(header.size()));
  for (const NamedView* tensor : order) {
    const TensorView& view = tensor->second;
    out.write(reinterpret_cast<const char*>(view.data), static_cast<std::streamsize>(view.bytes()));
  }
  if (!out.flush()) throw SetupError(fmt::format("{}: cannot be written", file.string()));
}

void save_safetensors(const std::filesystem::path& file, const TensorMap& tensors) {
  save_safetensors(file, TensorViewMap(tensors.begin(), tensors.end()));
}

}  // namespace tutti
