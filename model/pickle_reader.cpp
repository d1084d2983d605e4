#include "model/pickle_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "config/result.hpp"
#include "model/pickle_machine.hpp"

namespace tutti {

Pickle::Pickle(std::string origin, std::string bytes)
    : origin_(std::move(origin)), bytes_(std::move(bytes)), root_(PickleMachine(*this).run()) {}

void PickleMachine::refuse(const std::string& why) const {
  throw SetupError(fmt::format("{}: byte {}: {}", pickle_.origin_, opcode_at_, why));
}

PickleValue PickleMachine::run() {
  if (bytes_.size() > Pickle::max_bytes) {
    refuse(fmt::format("the pickle has {} bytes; at most {} are accepted", bytes_.size(), Pickle::max_bytes));
  }
  while (!stopped_) {
    opcode_at_ = at_;
    step(static_cast<PickleOpcode>(take_number<uint8_t>()));
  }
  return pop();
}

void PickleMachine::step(PickleOpcode opcode) {
  using enum PickleOpcode;
  switch (opcode) {
    case proto:
      if (const auto version = take_number<uint8_t>(); version != 2) {
        refuse(fmt::format("pickle protocol {} is not supported; torch.save writes protocol 2", version));
      }
      return;
    case stop:
      stopped_ = true;
      return;
    case mark:
      count_value();
      marks_.push_back(stack_.size());
      return;
    case binput:
      return memo_put(take_number<uint8_t>());
    case long_binput:
      return memo_put(take_number<uint32_t>());
    case binget:
      return memo_get(take_number<uint8_t>());
    case long_binget:
      return memo_get(take_number<uint32_t>());
    case global:
      return push_global();
    case binpersid:
      return push_storage();
    case reduce:
      return call();
    case append:
    case appends:
    case setitem:
    case setitems:
    case build:
      return change_container(opcode);
    default:
      return push_constant(opcode);
  }
}

void PickleMachine::push_constant(PickleOpcode opcode) {
  using enum PickleOpcode;
  switch (opcode) {
    case none:
      return push(std::monostate{});
    case newtrue:
      return push(true);
    case newfalse:
      return push(false);
    case binint:
      return push(int64_t{static_cast<int32_t>(take_number<uint32_t>())});
    case binint1:
      return push(int64_t{take_number<uint8_t>()});
    case binint2:
      return push(int64_t{take_number<uint16_t>()});
    case long1:
      return push(take_long());
    case binfloat:
      return push(take_double());
    case binunicode:
      return push(take(take_number<uint32_t>()));
    case empty_list:
      return push_sequence({});
    case empty_tuple:
      return push_tuple(0);
    case tuple1:
      return push_tuple(1);
    case tuple2:
      return push_tuple(2);
    case tuple3:
      return push_tuple(3);
    case tuple:
      return push_sequence(pop_to_mark());
    case empty_dict:
      return push(&pickle_.dicts_.emplace_back());
    default:
      refuse(
          fmt::format("opcode {} is not allowed; a checkpoint holds tensors, dicts, lists, tuples, strings "
                      "and numbers",
                      refused_opcode_name(static_cast<uint8_t>(opcode))));
  }
}

void PickleMachine::change_container(PickleOpcode opcode) {
  using enum PickleOpcode;
  switch (opcode) {
    case append:
      return append_items({pop()});
    case appends:
      return append_items(pop_to_mark());
    case setitem: {
      const PickleValue value = pop();
      return set_items({pop(), value});
    }
    case setitems:
      return set_items(pop_to_mark());
    default:  // BUILD: an OrderedDict's attributes (a state dict's _metadata), which nothing here needs
      (void)pop();
      if (!std::holds_alternative<PickleDict*>(top())) {
        refuse(fmt::format("BUILD gives attributes to {}; only a dict may have them", type_name(top())));
      }
  }
}

std::string_view PickleMachine::take(size_t count) {
  if (count > bytes_.size() - at_) {
    refuse(fmt::format("{} bytes are wanted, {} are left", count, bytes_.size() - at_));
  }
  at_ += count;
  return bytes_.substr(at_ - count, count);
}

std::string_view PickleMachine::take_line() {
  const size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) refuse("a name has no end");
  const std::string_view line = take(end - at_);
  ++at_;
  return line;
}

template <class Unsigned>
Unsigned PickleMachine::take_number() {
  Unsigned number = 0;
  int shift = 0;
  for (char byte : take(sizeof(Unsigned))) {
    number = static_cast<Unsigned>(number | Unsigned{static_cast<uint8_t>(byte)} << shift);
    shift += 8;
  }
  return number;
}

int64_t PickleMachine::take_long() {
  const std::string_view digits = take(take_number<uint8_t>());
  if (digits.size() > sizeof(int64_t)) refuse("an integer has more than 64 bits");
  uint64_t number = !digits.empty() && static_cast<int8_t>(digits.back()) < 0 ? ~uint64_t{0} : 0;
  for (auto byte = digits.rbegin(); byte != digits.rend(); ++byte) {
    number = number << 8 | static_cast<uint8_t>(*byte);
  }
  return static_cast<int64_t>(number);
}

double PickleMachine::take_double() {
  uint64_t bits = 0;
  for (char byte : take(sizeof(bits))) bits = bits << 8 | static_cast<uint8_t>(byte);
  return std::bit_cast<double>(bits);
}

void PickleMachine::count_value() {
  if (++values_ > Pickle::max_values) refuse(fmt::format("more than {} values", Pickle::max_values));
}

void PickleMachine::push(PickleValue value) {
  count_value();
  stack_.push_back(value);
}

PickleValue& PickleMachine::top() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) refuse("the stack is empty");
  return stack_.back();
}

PickleValue PickleMachine::pop() {
  const PickleValue value = top();
  stack_.pop_back();
  return value;
}

std::vector<PickleValue> PickleMachine::pop_to_mark() {
  if (marks_.empty()) refuse("there is no mark");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  marks_.pop_back();
  std::vector<PickleValue> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  return items;
}

void PickleMachine::push_sequence(std::vector<PickleValue> items) {
  push(&pickle_.sequences_.emplace_back(PickleSequence{std::move(items)}));
}

void PickleMachine::push_tuple(size_t count) {
  std::vector<PickleValue> items(count);
  for (auto item = items.rbegin(); item != items.rend(); ++item) *item = pop();
  push_sequence(std::move(items));
}

void PickleMachine::memo_put(uint32_t index) {
  memo_[index] = top();
  if (memo_.size() > Pickle::max_memo) refuse(fmt::format("more than {} memo entries", Pickle::max_memo));
}

void PickleMachine::memo_get(uint32_t index) {
  const auto at = memo_.find(index);
  if (at == memo_.end()) refuse(fmt::format("memo entry {} does not exist", index));
  push(at->second);
}

void PickleMachine::set_items(const std::vector<PickleValue>& items) {
  PickleDict* const* dict = std::get_if<PickleDict*>(&top());
  if (dict == nullptr) refuse(fmt::format("items are set in {}; a dict is expected", type_name(top())));
  if (items.size() % 2 != 0) refuse("a key has no value");
  for (size_t i = 0; i < items.size(); i += 2) (*dict)->items.emplace_back(items[i], items[i + 1]);
}

void PickleMachine::append_items(const std::vector<PickleValue>& items) {
  PickleSequence* const* list = std::get_if<PickleSequence*>(&top());
  if (list == nullptr) refuse(fmt::format("items are appended to {}; a list is expected", type_name(top())));
  std::ranges::copy(items, std::back_inserter((*list)->items));
}

}  // namespace tutti
