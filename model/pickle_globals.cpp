#include <fmt/format.h>

#include <array>

#include "config/result.hpp"
#include "gpu/tensor.hpp"
#include "model/input_file.hpp"
#include "model/pickle_machine.hpp"

namespace tutti {
namespace {

using Kind = PickleGlobal::Kind;

constexpr PickleGlobal allowed_globals[] = {
    {"collections.OrderedDict", Kind::ordered_dict},
    {"torch._utils._rebuild_tensor_v2", Kind::rebuild_tensor},
    {"torch._utils._rebuild_parameter", Kind::rebuild_parameter},
    {"torch.FloatStorage", Kind::storage, "float32"},
    {"torch.DoubleStorage", Kind::storage, "float64"},
    {"torch.HalfStorage", Kind::storage, "float16"},
    {"torch.BFloat16Storage", Kind::storage, "bfloat16"},
    {"torch.LongStorage", Kind::storage, "int64", true},
    {"torch.IntStorage", Kind::storage, "int32", true},
};

std::string allowed_names() {
  std::string names;
  for (const auto& global : allowed_globals) {
    if (!names.empty()) names += ", ";
    names += global.name;
  }
  return names;
}

}  // namespace

std::string_view type_name(const PickleValue& value) {
  constexpr std::array<std::string_view, std::variant_size_v<PickleValue>> names = {
      "None",   "a boolean", "an integer", "a number", "a string", "a list or tuple",
      "a dict", "a global",  "a storage",  "a tensor",
  };
  return names[value.index()];
}

void PickleMachine::push_global() {
  const std::string_view module = take_line();
  const std::string name = fmt::format("{}.{}", module, take_line());
  for (const auto& global : allowed_globals) {
    if (global.name == name) return push(&global);
  }
  refuse(fmt::format("global {} is not allowed; only {} are", printable(name), allowed_names()));
}

template <class T>
T PickleMachine::argument(const PickleSequence& args, size_t index, std::string_view of) {
  if (index >= args.items.size()) refuse(fmt::format("{} has no argument {}", of, index));
  const T* value = std::get_if<T>(&args.items[index]);
  if (value == nullptr) {
    refuse(fmt::format("argument {} of {} is {}; {} is expected", index, of, type_name(args.items[index]),
                       type_name(T{})));
  }
  return *value;
}

/// torch's persistent ids are ("storage", storage type, key, device, number of elements).
void PickleMachine::push_storage() {
  constexpr std::string_view what = "a persistent id";
  const PickleValue id = pop();
  PickleSequence* const* args = std::get_if<PickleSequence*>(&id);
  if (args == nullptr) refuse(fmt::format("{} is {}; a tuple is expected", what, type_name(id)));
  if (const auto kind = argument<std::string_view>(**args, 0, what); kind != "storage") {
    refuse(fmt::format("{} is of kind {}; only 'storage' is known", what, printable(kind)));
  }
  const auto* type = argument<const PickleGlobal*>(**args, 1, what);
  if (type->kind != Kind::storage) refuse(fmt::format("{} is not a type of storage", type->name));
  push(&pickle_.storages_.emplace_back(
      PickleStorage{type, argument<std::string_view>(**args, 2, what), argument<int64_t>(**args, 4, what)}));
}

void PickleMachine::call() {
  const PickleValue arguments = pop();
  const PickleValue callee = pop();
  PickleSequence* const* args = std::get_if<PickleSequence*>(&arguments);
  const PickleGlobal* const* global = std::get_if<const PickleGlobal*>(&callee);
  if (args == nullptr || global == nullptr) {
    refuse(fmt::format("{} is called with {}; only a global with a tuple can be", type_name(callee),
                       type_name(arguments)));
  }
  switch ((*global)->kind) {
    case Kind::ordered_dict:
      if (!(*args)->items.empty()) refuse("collections.OrderedDict is called with arguments");
      return push(&pickle_.dicts_.emplace_back());
    case Kind::rebuild_tensor:
      return rebuild_tensor(**args);
    case Kind::rebuild_parameter:
      return push(argument<PickleTensor*>(**args, 0, (*global)->name));
    case Kind::storage:
      refuse(fmt::format("{} is called; it only names a type", (*global)->name));
  }
}

/// (storage, offset, size, stride, requires_grad, backward_hooks).
void PickleMachine::rebuild_tensor(const PickleSequence& args) {
  constexpr std::string_view what = "_rebuild_tensor_v2";
  push(&pickle_.tensors_.emplace_back(PickleTensor{argument<PickleStorage*>(args, 0, what),
                                                   argument<int64_t>(args, 1, what), extents(args, 2),
                                                   extents(args, 3)}));
}

std::vector<int64_t> PickleMachine::extents(const PickleSequence& args, size_t index) {
  constexpr std::string_view what = "_rebuild_tensor_v2";
  const PickleSequence& sequence = *argument<PickleSequence*>(args, index, what);
  if (sequence.items.size() > Shape::max_rank) {
    refuse(fmt::format("a tensor has {} dimensions; at most {} are accepted", sequence.items.size(),
                       Shape::max_rank));
  }
  std::vector<int64_t> extents;
  for (size_t i = 0; i < sequence.items.size(); ++i) {
    extents.push_back(argument<int64_t>(sequence, i, "a tensor's size or stride"));
  }
  return extents;
}

}  // namespace tutti
