#include "gpu/cuda/packed.hpp"

#include <algorithm>
#include <cassert>

namespace tutti::cuda {
namespace {

GemmActivation gemm_activation(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return GemmActivation::relu;
    case Activation::swish:
      return GemmActivation::swish;
    case Activation::none:
      break;
  }
  return GemmActivation::none;
}

/// `weight` (out, in * inner) with the two axes of its columns exchanged, `inner` outermost.
Tensor inner_outermost(const TensorView& weight, int64_t in, int64_t inner) {
  const int64_t out = weight.shape[0];
  Tensor permuted = host_tensor(DType::f32, {out, inner * in});
  const float* from = weight.f32();
  float* const to = permuted.view().f32();
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t c = 0; c < in; ++c) {
      for (int64_t i = 0; i < inner; ++i) to[(o * inner + i) * in + c] = *from++;
    }
  }
  return permuted;
}

}  // namespace

CudaLinear::CudaLinear(Ops& ops, const TensorView& weight, const TensorView& bias)
    : weight_(ops.upload(weight)), bias_(bias.data == nullptr ? Tensor() : ops.upload(bias)) {}

GemmCall CudaLinear::call(const GemmInput& x, int64_t rows, const Epilogue& epilogue, float* y) const {
  return {.x = x,
          .weight = weight_.view().f32(),
          .bias = bias_.view().f32(),
          .residual = epilogue.residual.f32(),
          .y = y,
          .rows = rows,
          .in = in_features(),
          .out = out_features(),
          .activation = gemm_activation(epilogue.activation),
          .scale = epilogue.scale};
}

GemmInput matrix(const float* x, int64_t width) {
  return {.base = x,
          .group_begin = nullptr,
          .group_rows = 1,
          .group_stride = width,
          .row_stride = 0,
          .run_length = width,
          .run_stride = 0};
}

CudaSubsampling::CudaSubsampling(Ops& ops, const SubsamplingWeights& w, int num_mel_bins)
    : mel_(num_mel_bins),
      conv1_weight_(ops.upload(w.conv1_weight)),
      conv1_bias_(ops.upload(w.conv1_bias)),
      // (out, in, time, frequency) to (out, time, frequency, in).
      conv2_(ops, inner_outermost(w.conv2_weight, w.conv2_weight.shape[1], 9), w.conv2_bias),
      // Columns c * F + f to f * D + c.
      out_(ops, inner_outermost(w.out_weight, w.conv2_weight.shape[0], halve(halve(num_mel_bins))),
           w.out_bias) {
  assert(out_.in_features() == flat());
}

FirstConvolutionCall CudaSubsampling::conv1(const float* features, const int32_t* feature_row, int64_t frames,
                                            float* out) const {
  return {.features = features,
          .feature_row = feature_row,
          .weight = conv1_weight_.view().f32(),
          .bias = conv1_bias_.view().f32(),
          .out = out,
          .rows = frames,
          .mel = mel_,
          .channels = channels()};
}

GemmCall CudaSubsampling::conv2(const float* frames, const int32_t* frame_begin, int64_t rows,
                                float* out) const {
  const int bins = halve(halve(mel_));
  const GemmInput windows{.base = frames,
                          .group_begin = frame_begin,
                          .group_rows = bins,
                          .group_stride = frame(),
                          .row_stride = 2 * channels(),
                          .run_length = 3 * channels(),
                          .run_stride = frame()};
  return conv2_.call(windows, rows * bins, {.activation = Activation::relu}, out);
}

GemmCall CudaSubsampling::out(const float* rows_in, int64_t rows, float scale, float* out) const {
  return out_.call(matrix(rows_in, flat()), rows, {.scale = scale}, out);
}

}  // namespace tutti::cuda
