#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include "gpu/ops.hpp"
#include "model/weights.hpp"

namespace tutti {

/// Layer norm over the last axis.
struct Norm {
  Tensor gamma;
  Tensor beta;
};

/// Takes the layers that encoder and decoder have in common out of a checkpoint and puts them on the device.
/// Throws SetupError for missing or misshapen tensors.
class LayerLoader {
 public:
  LayerLoader(WeightMap& weights, Ops& ops) : weights_(weights), ops_(ops) {}

  [[nodiscard]] Tensor vector(const std::string& name, int64_t size);
  [[nodiscard]] Norm norm(const std::string& name, int64_t size);
  [[nodiscard]] std::shared_ptr<const PackedLinear> linear(const std::string& name, int64_t in, int64_t out);
  /// Several linear layers of d to d as one product: their outputs lie side by side.
  [[nodiscard]] std::shared_ptr<const PackedLinear> merged(std::initializer_list<std::string> names,
                                                           int64_t d);

 protected:
  [[nodiscard]] WeightMap& weights() { return weights_; }
  [[nodiscard]] Ops& ops() { return ops_; }

 private:
  WeightMap& weights_;
  Ops& ops_;
};

}  // namespace tutti
