#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tutti {

/// One of the few importable names a checkpoint's pickle may use. None of them is code here: a call of one is
/// a description that the reader understands.
struct PickleGlobal {
  enum class Kind : uint8_t { ordered_dict, rebuild_tensor, rebuild_parameter, storage };
  std::string_view name;  ///< "torch.FloatStorage"
  Kind kind;
  std::string_view element = {};  ///< of a storage: "float32"
  bool integral = false;          ///< of a storage
};

struct PickleSequence;
struct PickleDict;
struct PickleStorage;
struct PickleTensor;

/// Strings and pointers live as long as the Pickle they came from.
using PickleValue = std::variant<std::monostate, bool, int64_t, double, std::string_view, PickleSequence*,
                                 PickleDict*, const PickleGlobal*, PickleStorage*, PickleTensor*>;

/// A list or a tuple.
struct PickleSequence {
  std::vector<PickleValue> items;
};

/// In insertion order.
struct PickleDict {
  std::vector<std::pair<PickleValue, PickleValue>> items;
};

/// A storage the file refers to; `key` names its zip entry.
struct PickleStorage {
  const PickleGlobal* type;
  std::string_view key;
  int64_t elements;
};

/// A view of a storage, in elements. Nothing about it has been checked.
struct PickleTensor {
  const PickleStorage* storage;
  int64_t offset;
  std::vector<int64_t> size;
  std::vector<int64_t> stride;
};

/// A pickle of protocol 2, read by a machine that knows constants, containers and what torch.save needs for
/// tensors. Nothing is executed. The objects are owned flat, by kind: a pickle may nest as deep as it likes,
/// and contain itself, without recursion here.
class Pickle {
 public:
  static constexpr size_t max_bytes = 32 << 20;
  static constexpr size_t max_values = 2'000'000;  ///< pushed in all: bounds the stack and the containers
  static constexpr size_t max_memo = 1'000'000;

  /// `origin` opens every message. Throws SetupError naming the byte and the opcode or global that is
  /// refused.
  Pickle(std::string origin, std::string bytes);
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  [[nodiscard]] const PickleValue& root() const { return root_; }

 private:
  friend class PickleMachine;

  std::string origin_;
  std::string bytes_;
  std::deque<PickleSequence> sequences_;
  std::deque<PickleDict> dicts_;
  std::deque<PickleStorage> storages_;
  std::deque<PickleTensor> tensors_;
  PickleValue root_;
};

/// "a string" for messages.
[[nodiscard]] std::string_view type_name(const PickleValue& value);

}  // namespace tutti
