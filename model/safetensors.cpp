#include "model/safetensors.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <set>
#include <vector>

#include "config/result.hpp"
#include "model/input_file.hpp"

namespace tutti {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor data is copied as it lies in the file");

constexpr uint64_t max_header_bytes = 16 << 20;
constexpr size_t header_alignment = 8;

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
  explicit SafetensorsReader(const std::filesystem::path& file)
      : origin_(file.string()), in_(file, std::ios::binary) {
    std::error_code error;
    size_ = std::filesystem::file_size(file, error);
    if (error) refuse(fmt::format("cannot be read: {}", error.message()));
  }

  TensorMap read() {
    const std::string header = read_header();
    std::vector<Entry> entries = parse_header(header);
    check_tiling(entries, size_ - sizeof(uint64_t) - header.size());
    TensorMap tensors;
    for (const Entry& entry : entries) {
      Tensor tensor = host_tensor(entry.dtype, entry.shape);
      const TensorView view = tensor;
      read_bytes(reinterpret_cast<char*>(view.data), view.bytes());
      tensors.emplace(entry.name, std::move(tensor));
    }
    return tensors;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw SetupError(fmt::format("{}: {}", origin_, why));
  }

  void read_bytes(char* out, size_t count) {
    if (!in_.read(out, static_cast<std::streamsize>(count))) refuse("cannot be read to its end");
  }

  std::string read_header() {
    uint64_t length = 0;
    if (size_ < sizeof(length)) refuse("is shorter than the 8 bytes of a header length");
    read_bytes(reinterpret_cast<char*>(&length), sizeof(length));
    const uint64_t available = std::min(size_ - sizeof(length), max_header_bytes);
    if (length > available) {
      refuse(fmt::format("states a header of {} bytes; at most {} are possible", length, available));
    }
    std::string header(length, '\0');
    read_bytes(header.data(), header.size());
    return header;
  }

  [[nodiscard]] std::vector<Entry> parse_header(const std::string& header) const {
    std::vector<Entry> entries;
    simdjson::dom::parser parser;
    simdjson::dom::object root;
    if (const auto error = parser.parse(header).get(root)) {
      refuse(fmt::format("the header is not a JSON object: {}", simdjson::error_message(error)));
    }
    std::set<std::string_view> names;
    for (const auto& [name, value] : root) {
      if (!names.insert(name).second) refuse(fmt::format("{} appears twice", printable(name)));
      if (name == "__metadata__") continue;
      try {
        entries.push_back(parse_entry(name, value));
      } catch (const simdjson::simdjson_error& error) {
        refuse(
            fmt::format("{}: dtype, shape and data_offsets are expected: {}", printable(name), error.what()));
      }
    }
    return entries;
  }

  [[nodiscard]] Entry parse_entry(std::string_view name, const simdjson::dom::element& value) const {
    const std::string_view dtype = value["dtype"];
    if (dtype != "F32" && dtype != "I32") {
      refuse(fmt::format("{} is of type {}; F32 and I32 are supported", printable(name), printable(dtype)));
    }
    std::vector<int64_t> extents;
    for (const int64_t extent : value["shape"].get_array()) extents.push_back(extent);
    const simdjson::dom::array offsets = value["data_offsets"];
    if (offsets.size() != 2) refuse(fmt::format("{}: data_offsets is not a pair", printable(name)));
    return {std::string(name), dtype == "F32" ? DType::f32 : DType::i32,
            checked_shape(extents, fmt::format("{}: {}", origin_, printable(name))), offsets.at(0),
            offsets.at(1)};
  }

  /// Tensors lie one after the other and fill the file: nothing overlaps, nothing is out of range, and, as
  /// every supported element has 4 bytes, nothing is misaligned.
  void check_tiling(std::vector<Entry>& entries, uint64_t data_bytes) const {
    std::ranges::stable_sort(entries, {},
                             [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
    uint64_t expected = 0;
    for (const Entry& entry : entries) {
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
  std::ifstream in_;
  uint64_t size_ = 0;
};

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string make_header(const TensorMap& tensors) {
  std::string header = "{";
  uint64_t begin = 0;
  for (const auto& [name, tensor] : tensors) {
    const TensorView view = tensor;
    std::string shape;
    for (int axis = 0; axis < view.shape.rank(); ++axis) {
      shape += fmt::format("{}{}", axis == 0 ? "" : ",", view.shape[axis]);
    }
    header += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          header.size() == 1 ? "" : ",", json_string(name),
                          view.dtype == DType::f32 ? "F32" : "I32", shape, begin, begin + view.bytes());
    begin += view.bytes();
  }
  header += '}';
  header.resize((header.size() + header_alignment - 1) / header_alignment * header_alignment, ' ');
  return header;
}

}  // namespace

TensorMap load_safetensors(const std::filesystem::path& file) { return SafetensorsReader(file).read(); }

void save_safetensors(const std::filesystem::path& file, const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (const DType dtype = tensor.view().dtype; dtype != DType::f32 && dtype != DType::i32) {
      throw SetupError(fmt::format("{}: {} is neither F32 nor I32", file.string(), printable(name)));
    }
  }
  const std::string header = make_header(tensors);
  const uint64_t length = header.size();
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(&length), sizeof(length));
  out.write(header.data(), static_cast<std::streamsize>(header.size()));
  for (const auto& [name, tensor] : tensors) {
    const TensorView view = tensor;
    out.write(reinterpret_cast<const char*>(view.data), static_cast<std::streamsize>(view.bytes()));
  }
  if (!out.flush()) throw SetupError(fmt::format("{}: cannot be written", file.string()));
}

}  // namespace tutti
