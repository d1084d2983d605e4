#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "gpu/ops.hpp"
#include "tests/gpu/random_tensor.hpp"

// What operations are to give, in double and without regard for speed: the kernels of each instruction set
// and the backends are compared with the same.

namespace tutti::reference {

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// Ops::layer_norm of one row.
inline std::vector<double> layer_norm_row(const std::vector<double>& x, std::span<const float> gamma,
                                          std::span<const float> beta, double eps) {
  const auto n = static_cast<double>(x.size());
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double squares = 0;
  for (const double v : x) squares += (v - mean) * (v - mean);
  std::vector<double> y;
  for (size_t c = 0; c < x.size(); ++c) {
    y.push_back(gamma[c] * (x[c] - mean) / std::sqrt(squares / n + eps) + beta[c]);
  }
  return y;
}

inline std::vector<double> layer_norm(const TensorView& x, const TensorView& gamma, const TensorView& beta,
                                      double eps) {
  std::vector<double> y;
  for (int64_t r = 0; r < x.rows(); ++r) {
    const std::span<const float> row = Random::values(x[r]);
    const std::vector<double> normed =
        layer_norm_row({row.begin(), row.end()}, Random::values(gamma), Random::values(beta), eps);
    y.insert(y.end(), normed.begin(), normed.end());
  }
  return y;
}

inline std::vector<double> log_softmax(const TensorView& logits) {
  std::vector<double> result;
  for (int64_t r = 0; r < logits.rows(); ++r) {
    const std::span<const float> row = Random::values(logits[r]);
    const double max = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const double v : row) sum += std::exp(v - max);
    for (const double v : row) result.push_back(v - max - std::log(sum));
  }
  return result;
}

/// Columns of a row, the largest value first, the smaller column first among equals.
inline std::vector<int32_t> sorted_ids(std::span<const float> row) {
  std::vector<int32_t> ids(row.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int a, int b) { return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)]; });
  return ids;
}

/// Ops::conv_module of one lane: GLU, convolution, norm, swish, each over whole rows.
inline std::vector<double> conv_lane(const TensorView& extended, const ConvModuleWeights& weights,
                                     double eps) {
  const int64_t channels = weights.depthwise_weight.rows();
  const int64_t taps = weights.depthwise_weight.cols();
  const auto gated = [&](int64_t r, int64_t c) {
    const float* row = extended.f32() + r * 2 * channels;
    return row[c] * sigmoid(row[channels + c]);
  };
  const std::span<const float> scale = Random::values(weights.norm_scale);
  const std::span<const float> shift = Random::values(weights.norm_shift);
  std::vector<double> out;
  for (int64_t r = 0; r + taps <= extended.rows(); ++r) {
    std::vector<double> y;
    for (int64_t c = 0; c < channels; ++c) {
      double sum = weights.depthwise_bias.f32()[c];
      for (int64_t k = 0; k < taps; ++k) {
        sum += static_cast<double>(weights.depthwise_weight[c].f32()[k]) * gated(r + k, c);
      }
      y.push_back(sum);
    }
    if (weights.folded_batch_norm) {
      for (size_t c = 0; c < y.size(); ++c) y[c] = scale[c] * y[c] + shift[c];
    } else {
      y = layer_norm_row(y, scale, shift, eps);
    }
    for (const double normed : y) out.push_back(normed * sigmoid(normed));
  }
  return out;
}

}  // namespace tutti::reference
