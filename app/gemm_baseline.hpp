#pragma once

#include <memory>
#include <vector>

#include "gpu/cpu/gemm.hpp"
#include "gpu/weight_type.hpp"
#include "model/checkpoint.hpp"

namespace tutti {

/// A matrix product of a tick: (rows, in) by (in, out), so many times.
struct TickProduct {
  int rows, in, out;
  int repeats = 1;
  bool is_convolution = false;
};
/// Those of `lanes` full chunks, in the model's order.
[[nodiscard]] std::vector<TickProduct> tick_products(const ConformerSpec& spec, int chunk_size, int lanes);
[[nodiscard]] double flops(const std::vector<TickProduct>& products);

/// The matrix products of one tick and nothing else: as many weight matrices as the model has, each of its
/// own shape, stored as the model's are, in the model's order, over the rows of `lanes` full chunks; without
/// biases, activations or residuals. For each shape the faster of a oneDNN primitive made for exactly these
/// rows (of integers that it is given as such, where weights are int8) and our own kernel is used; at a
/// lowered level (gpu/cpu/level.hpp) always our own. What a tick takes longer than this is what the engine
/// adds.
class GemmBaseline {
 public:
  GemmBaseline(const ConformerSpec& spec, int chunk_size, int lanes, WeightType type = WeightType::fp32);
  ~GemmBaseline();

  /// Times both kernels over the whole sequence, `rounds` times, and keeps the faster for each shape.
  void choose_kernels(int rounds);
  /// Runs the sequence once; returns its seconds.
  double run();

 private:
  class Product;
  [[nodiscard]] std::vector<double> time_each(bool onednn);

  cpu::GemmScratch scratch_;
  std::vector<float> input_;
  std::vector<float> output_;
  std::vector<std::unique_ptr<Product>> products_;
};

}  // namespace tutti
