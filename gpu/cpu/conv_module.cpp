#include "gpu/cpu/conv_module.hpp"

#include <algorithm>
#include <cstring>

#include "gpu/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/conv_module.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "gpu/cpu/activation-inl.hpp"
#include "gpu/cpu/simd-inl.hpp"
#include "hwy/highway.h"

#ifndef TUTTI_GPU_CPU_CONV_MODULE_ONCE
#define TUTTI_GPU_CPU_CONV_MODULE_ONCE
namespace tutti::cpu {

/// Rows of output made at a time; a multiple of the rows that share a load of the taps.
inline constexpr size_t conv_tile_rows = 16;

/// Sizes and pointers of one call, free of tensors. Scratch rows are `stride` floats: the channels rounded up
/// to whole vectors of any instruction set, so that the inner loops have no remainder.
struct ConvModuleCall {
  size_t channels, taps, stride;
  const float* weight;  ///< (channels, taps)
  const float* bias;
  const float* norm_scale;
  const float* norm_shift;
  bool folded;
  float eps;
  float* taps_first;  ///< scratch: (taps, stride), the weights transposed
  float* gated;      ///< scratch: (taps - 1 + conv_tile_rows, stride), the GLU of a tile and its left context
  float* convolved;  ///< scratch: (conv_tile_rows, stride)
};

}  // namespace tutti::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {

constexpr size_t rows_at_once = 4;
using D = hn::CappedTag<float, 16>;  // scratch rows are padded for no more
using V = hn::Vec<D>;

void transpose_weights(const ConvModuleCall& call) {
  for (size_t k = 0; k < call.taps; ++k) {
    float* row = call.taps_first + k * call.stride;
    for (size_t c = 0; c < call.channels; ++c) row[c] = call.weight[c * call.taps + k];
    std::fill(row + call.channels, row + call.stride, 0.0F);
  }
}

/// gated = a * sigmoid(b) of `rows` rows (a | b).
void glu(const ConvModuleCall& call, const float* rows_in, size_t rows, float* gated) {
  const D d;
  const size_t channels = call.channels;
  for (size_t r = 0; r < rows; ++r, rows_in += 2 * channels, gated += call.stride) {
    for (size_t c = 0; c < channels; c += hn::Lanes(d)) {
      const V a = load_first(d, rows_in + c, channels - c);
      const V b = load_first(d, rows_in + channels + c, channels - c);
      hn::StoreU(hn::Mul(a, sigmoid(d, b)), d, gated + c);
    }
  }
}

/// rows_at_once rows of the causal depthwise convolution; row r reads gated rows [r, r + taps).
void convolve(const ConvModuleCall& call, const float* gated, float* convolved) {
  const D d;
  const size_t stride = call.stride;
  for (size_t c = 0; c < call.channels; c += hn::Lanes(d)) {
    const V bias = load_first(d, call.bias + c, call.channels - c);
    V y0 = bias, y1 = bias, y2 = bias, y3 = bias;
    const float* g = gated + c;
    const float* w = call.taps_first + c;
    for (size_t k = 0; k < call.taps; ++k, g += stride, w += stride) {
      const V weight = hn::LoadU(d, w);
      y0 = hn::MulAdd(weight, hn::LoadU(d, g), y0);
      y1 = hn::MulAdd(weight, hn::LoadU(d, g + stride), y1);
      y2 = hn::MulAdd(weight, hn::LoadU(d, g + 2 * stride), y2);
      y3 = hn::MulAdd(weight, hn::LoadU(d, g + 3 * stride), y3);
    }
    hn::StoreU(y0, d, convolved + c);
    hn::StoreU(y1, d, convolved + stride + c);
    hn::StoreU(y2, d, convolved + 2 * stride + c);
    hn::StoreU(y3, d, convolved + 3 * stride + c);
  }
}

void norm_swish(const ConvModuleCall& call, const float* x, float* y) {
  const D d;
  const auto post = [d](V v) HWY_ATTR { return swish(d, v); };
  const size_t n = call.channels;
  if (!call.folded) return normalize_row(d, x, n, call.norm_scale, call.norm_shift, call.eps, y, post);
  for (size_t c = 0; c < n; c += hn::Lanes(d)) {
    const V scale = load_first(d, call.norm_scale + c, n - c);
    const V shift = load_first(d, call.norm_shift + c, n - c);
    store_first(d, post(hn::MulAdd(hn::LoadU(d, x + c), scale, shift)), y + c, n - c);
  }
}

/// One lane: `extended` has taps - 1 + rows rows of 2 * channels, `out` rows of channels.
void conv_lane(const ConvModuleCall& call, const float* extended, size_t rows, float* out) {
  const size_t context = call.taps - 1;
  glu(call, extended, context, call.gated);
  for (size_t begin = 0; begin < rows; begin += conv_tile_rows) {
    const size_t n = std::min(conv_tile_rows, rows - begin);
    glu(call, extended + (context + begin) * 2 * call.channels, n, call.gated + context * call.stride);
    for (size_t r = 0; r < n; r += rows_at_once) {
      convolve(call, call.gated + r * call.stride, call.convolved + r * call.stride);
    }
    for (size_t r = 0; r < n; ++r) {
      norm_swish(call, call.convolved + r * call.stride, out + (begin + r) * call.channels);
    }
    std::memmove(call.gated, call.gated + n * call.stride, context * call.stride * sizeof(float));
  }
}

}  // namespace
}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
namespace {

size_t padded(size_t channels) { return (channels + 15) / 16 * 16; }

}  // namespace

HWY_EXPORT(transpose_weights);
HWY_EXPORT(conv_lane);

size_t conv_module_scratch_floats(int channels, int kernel_size) {
  const auto taps = static_cast<size_t>(kernel_size);
  return padded(static_cast<size_t>(channels)) * (taps + (taps - 1 + conv_tile_rows) + conv_tile_rows);
}

void conv_module(const BatchLayout& layout, const TensorView& extended, const ConvModuleWeights& weights,
                 float eps, const TensorView& out, std::span<float> scratch) {
  const auto channels = static_cast<size_t>(weights.depthwise_weight.shape[0]);
  const auto taps = static_cast<size_t>(weights.depthwise_weight.shape[1]);
  assert(scratch.size() >= conv_module_scratch_floats(static_cast<int>(channels), static_cast<int>(taps)));
  assert(static_cast<size_t>(extended.rows()) ==
         static_cast<size_t>(layout.rows()) + static_cast<size_t>(layout.lanes()) * (taps - 1));
  const size_t stride = padded(channels);
  float* const gated = scratch.data() + taps * stride;
  float* const convolved = gated + (taps - 1 + conv_tile_rows) * stride;
  const ConvModuleCall call{.channels = channels,
                            .taps = taps,
                            .stride = stride,
                            .weight = weights.depthwise_weight.f32(),
                            .bias = weights.depthwise_bias.f32(),
                            .norm_scale = weights.norm_scale.f32(),
                            .norm_shift = weights.norm_shift.f32(),
                            .folded = weights.folded_batch_norm,
                            .eps = eps,
                            .taps_first = scratch.data(),
                            .gated = gated,
                            .convolved = convolved};
  HWY_DYNAMIC_DISPATCH(transpose_weights)(call);
  for (int lane = 0; lane < layout.lanes(); ++lane) {
    const auto begin = static_cast<size_t>(layout.row_begin[lane]);
    const float* lane_rows = extended.f32() + (begin + static_cast<size_t>(lane) * (taps - 1)) * 2 * channels;
    HWY_DYNAMIC_DISPATCH(conv_lane)
    (call, lane_rows, static_cast<size_t>(layout.rows(lane)), out.f32() + begin * channels);
  }
}

void extend_with_context(const BatchLayout& layout, const TensorView& x, std::span<const int32_t> slots,
                         const TensorView& cache, const TensorView& extended) {
  const auto context = static_cast<size_t>(cache.shape[1]);
  const auto channels = static_cast<size_t>(x.cols());
  assert(slots.size() == static_cast<size_t>(layout.lanes()) && cache.shape[2] == x.cols());
  float* to = extended.f32();
  for (int lane = 0; lane < layout.lanes(); ++lane) {
    float* const left = cache.f32() + static_cast<size_t>(slots[lane]) * context * channels;
    const size_t rows = static_cast<size_t>(layout.rows(lane));
    const float* const fresh = x.f32() + static_cast<size_t>(layout.row_begin[lane]) * channels;
    std::copy_n(left, context * channels, to);
    std::copy_n(fresh, rows * channels, to + context * channels);
    std::copy_n(to + rows * channels, context * channels, left);
    to += (context + rows) * channels;
  }
}

}  // namespace tutti::cpu
#endif  // HWY_ONCE
