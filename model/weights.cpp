#include "model/weights.hpp"

#include <fmt/format.h>

#include "config/result.hpp"
#include "model/bfloat16.hpp"
#include "model/input_file.hpp"

namespace tutti {

void WeightMap::add(std::string name, Tensor tensor) {
  auto owner = std::make_shared<const Tensor>(std::move(tensor));
  const TensorView view = *owner;
  add(std::move(name), view, std::move(owner));
}

void WeightMap::add(std::string name, const TensorView& tensor, std::shared_ptr<const void> owner) {
  const auto [at, added] = tensors_.try_emplace(std::move(name), Held{tensor, std::move(owner)});
  if (!added) throw SetupError(fmt::format("{}: {} appears twice", origin_, printable(at->first)));
}

bool WeightMap::contains(std::string_view name) const { return tensors_.contains(name); }

WeightMap::Held& WeightMap::find(std::string_view name) {
  const auto at = tensors_.find(name);
  if (at == tensors_.end()) throw SetupError(fmt::format("{}: {} is missing", origin_, printable(name)));
  return at->second;
}

TensorView WeightMap::take(std::string_view name, const Shape& shape) {
  // Before anything is widened: the shape a file states may be large.
  if (const TensorView& found = find(name).view; found.shape != shape) {
    throw SetupError(fmt::format("{}: {} has shape {}; {} is expected", origin_, printable(name),
                                 to_string(found.shape), to_string(shape)));
  }
  return take(name);
}

TensorView WeightMap::take(std::string_view name) {
  Held& held = find(name);
  if (held.view.dtype == DType::bf16) {
    auto wide = std::make_shared<const Tensor>(widen_to_float(held.view));
    held = {*wide, wide};
  }
  if (held.view.dtype != DType::f32) {
    throw SetupError(fmt::format("{}: {} is of neither type float32 nor bfloat16", origin_, printable(name)));
  }
  used_.emplace(name);
  return held.view;
}

void WeightMap::ignore(std::string_view name) { used_.emplace(name); }

std::vector<std::string> WeightMap::unused() const {
  std::vector<std::string> names;
  for (const auto& entry : tensors_) {
    if (!used_.contains(entry.first)) names.push_back(entry.first);
  }
  return names;
}

TensorViewMap WeightMap::views() const {
  TensorViewMap views;
  for (const auto& [name, held] : tensors_) views.emplace(name, held.view);
  return views;
}

}  // namespace tutti
