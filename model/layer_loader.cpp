#include "model/layer_loader.hpp"

#include <algorithm>

namespace tutti {

Tensor LayerLoader::vector(const std::string& name, int64_t size) {
  return ops_.upload(weights_.take(name, {size}));
}

Norm LayerLoader::norm(const std::string& name, int64_t size) {
  return {vector(name + ".weight", size), vector(name + ".bias", size)};
}

std::shared_ptr<const PackedLinear> LayerLoader::linear(const std::string& name, int64_t in, int64_t out) {
  return ops_.pack_linear(weights_.take(name + ".weight", {out, in}), weights_.take(name + ".bias", {out}));
}

std::shared_ptr<const PackedLinear> LayerLoader::merged(std::initializer_list<std::string> names, int64_t d) {
  const auto parts = static_cast<int64_t>(names.size());
  const Tensor weight = host_tensor(DType::f32, {parts * d, d});
  const Tensor bias = host_tensor(DType::f32, {parts * d});
  int64_t part = 0;
  for (const std::string& name : names) {
    const TensorView w = weights_.take(name + ".weight", {d, d});
    const TensorView b = weights_.take(name + ".bias", {d});
    std::copy_n(w.f32(), d * d, weight.view().slice(part * d, d).f32());
    std::copy_n(b.f32(), d, bias.view().f32() + part * d);
    ++part;
  }
  return ops_.pack_linear(weight, bias);
}

}  // namespace tutti
