#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace tutti::test {

/// Little-endian bytes of `value`.
template <class Unsigned>
std::string little_endian(Unsigned value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(value); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

/// Writes pickles opcode by opcode, well-formed or not.
class PickleAssembler {
 public:
  PickleAssembler() { raw("\x80\x02"); }

  PickleAssembler& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  PickleAssembler& text(std::string_view value) {
    return raw("X").raw(little_endian(static_cast<uint32_t>(value.size()))).raw(value);
  }
  PickleAssembler& integer(int64_t value) {
    return raw("\x8a\x08").raw(little_endian(static_cast<uint64_t>(value)));
  }
  PickleAssembler& global(std::string_view module, std::string_view name) {
    return raw("c").raw(module).raw("\n").raw(name).raw("\n");
  }
  PickleAssembler& integers(std::initializer_list<int64_t> values) {
    raw("(");
    for (int64_t value : values) integer(value);
    return raw("t");
  }
  /// The persistent id of a storage.
  PickleAssembler& storage(std::string_view type, std::string_view key, int64_t elements) {
    return raw("(").text("storage").global("torch", type).text(key).text("cpu").integer(elements).raw("tQ");
  }

  struct Tensor {
    std::initializer_list<int64_t> size = {2, 3};
    std::initializer_list<int64_t> stride = {3, 1};
    int64_t offset = 0;
    int64_t storage_elements = 6;
    std::string_view type = "FloatStorage";
    std::string_view key = "0";
  };
  /// As torch.save writes a tensor.
  PickleAssembler& tensor(const Tensor& tensor) {
    global("torch._utils", "_rebuild_tensor_v2").raw("(");
    storage(tensor.type, tensor.key, tensor.storage_elements).integer(tensor.offset);
    integers(tensor.size).integers(tensor.stride);
    return raw("\x89").global("collections", "OrderedDict").raw(")RtR");
  }
  [[nodiscard]] std::string stop() { return raw(".").bytes_; }

 private:
  std::string bytes_;
};

/// {"weight": tensor}
inline std::string state_dict_of(const PickleAssembler::Tensor& tensor) {
  return PickleAssembler().raw("}").text("weight").tensor(tensor).raw("s").stop();
}

}  // namespace tutti::test
