#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/pickle_opcodes.hpp"
#include "model/pickle_reader.hpp"

namespace tutti {

/// The stack machine behind Pickle: a detail of it.
class PickleMachine {
 public:
  explicit PickleMachine(Pickle& pickle) : pickle_(pickle), bytes_(pickle.bytes_) {}
  /// Runs up to STOP and returns the value on top.
  PickleValue run();

 private:
  void step(PickleOpcode opcode);
  void push_constant(PickleOpcode opcode);
  void change_container(PickleOpcode opcode);

  [[nodiscard]] std::string_view take(size_t count);
  [[nodiscard]] std::string_view take_line();
  template <class Unsigned>
  [[nodiscard]] Unsigned take_number();
  [[nodiscard]] int64_t take_long();
  [[nodiscard]] double take_double();

  void count_value();
  void push(PickleValue value);
  [[nodiscard]] PickleValue pop();
  [[nodiscard]] PickleValue& top();
  [[nodiscard]] std::vector<PickleValue> pop_to_mark();
  void push_sequence(std::vector<PickleValue> items);
  void push_tuple(size_t count);

  void memo_put(uint32_t index);
  void memo_get(uint32_t index);
  void set_items(const std::vector<PickleValue>& items);
  void append_items(const std::vector<PickleValue>& items);

  void push_global();
  void push_storage();
  void call();
  void rebuild_tensor(const PickleSequence& args);
  template <class T>
  [[nodiscard]] T argument(const PickleSequence& args, size_t index, std::string_view of);
  [[nodiscard]] std::vector<int64_t> extents(const PickleSequence& args, size_t index);

  [[noreturn]] void refuse(const std::string& why) const;

  Pickle& pickle_;
  std::string_view bytes_;
  size_t at_ = 0;         ///< next byte to read
  size_t opcode_at_ = 0;  ///< of the opcode in progress
  size_t values_ = 0;     ///< pushed so far, marks included
  bool stopped_ = false;
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;  ///< stack heights
  std::unordered_map<uint32_t, PickleValue> memo_;
};

}  // namespace tutti
