#include "model/weights.hpp"

#include <fmt/format.h>

#include "config/result.hpp"
#include "model/input_file.hpp"

namespace tutti {

void WeightMap::add(std::string name, Tensor tensor) {
  const auto [at, added] = tensors_.try_emplace(std::move(name), std::move(tensor));
  if (!added) throw SetupError(fmt::format("{}: {} appears twice", origin_, printable(at->first)));
}

bool WeightMap::contains(std::string_view name) const { return tensors_.contains(name); }

TensorView WeightMap::take(std::string_view name, const Shape& shape) {
  const TensorView found = take(name);
  if (found.shape != shape) {
    throw SetupError(fmt::format("{}: {} has shape {}; {} is expected", origin_, printable(name),
                                 to_string(found.shape), to_string(shape)));
  }
  return found;
}

TensorView WeightMap::take(std::string_view name) {
  const auto at = tensors_.find(name);
  if (at == tensors_.end()) throw SetupError(fmt::format("{}: {} is missing", origin_, printable(name)));
  const TensorView found = at->second;
  if (found.dtype != DType::f32) {
    throw SetupError(fmt::format("{}: {} is not of type float32", origin_, printable(name)));
  }
  used_.emplace(name);
  return found;
}

void WeightMap::ignore(std::string_view name) { used_.emplace(name); }

std::vector<std::string> WeightMap::unused() const {
  std::vector<std::string> names;
  for (const auto& entry : tensors_) {
    if (!used_.contains(entry.first)) names.push_back(entry.first);
  }
  return names;
}

}  // namespace tutti
