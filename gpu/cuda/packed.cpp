#include "gpu/cuda/packed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "gpu/bfloat16.hpp"
#include "gpu/digit_reversed.hpp"
#include "gpu/float16.hpp"
#include "gpu/float8.hpp"
#include "gpu/int8_weights.hpp"

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

/// From so many on, the sums of int8 may not fit 32 bits.
constexpr int64_t longest_int8_row = 1 << 17;
static_assert(longest_int8_row / 4 * max_quad_magnitude * 255 <= INT32_MAX);

/// `weight` as words of its type, zeros behind each row, and what its codes are worth.
struct Words {
  Tensor words;
  Tensor scales;
  Tensor sums;
};

Tensor empty_words(MatrixType type, const TensorView& weight) {
  return host_tensor(DType::i32, {weight.rows(), words_of(type, weight.cols())});
}

Words words_of_halves(MatrixType type, const TensorView& weight) {
  Words packed{.words = empty_words(type, weight), .scales = {}, .sums = {}};
  const auto narrow = type == MatrixType::bf16 ? to_bfloat16 : to_float16;
  for (int64_t o = 0; o < weight.rows(); ++o) {
    auto* const halves = reinterpret_cast<uint16_t*>(packed.words.view()[o].data);
    std::transform(weight[o].f32(), weight[o].f32() + weight.cols(), halves, narrow);
  }
  return packed;
}

/// Returns the scale, NaN when a weight is not finite.
float quantize_to_float8(std::span<const float> weights, uint8_t* codes) {
  float amax = 0;
  float probe = 0;
  for (const float w : weights) {
    amax = std::max(amax, std::abs(w));
    probe += w * 0.0F;
  }
  if (std::isnan(probe)) return std::numeric_limits<float>::quiet_NaN();
  const float scale = float8_e4m3_scale(amax);
  std::ranges::transform(weights, codes, [scale](float w) { return to_float8_e4m3(w / scale); });
  return scale;
}

Words words_of_codes(MatrixType type, const TensorView& weight) {
  Words packed{.words = empty_words(type, weight),
               .scales = host_tensor(DType::f32, {weight.rows()}),
               .sums = host_tensor(DType::i32, {weight.rows()})};
  for (int64_t o = 0; o < weight.rows(); ++o) {
    const std::span<const float> row{weight[o].f32(), static_cast<size_t>(weight.cols())};
    std::byte* const codes = packed.words.view()[o].data;
    float& scale = packed.scales.view().f32()[o];
    if (type == MatrixType::f8e4m3) {
      scale = quantize_to_float8(row, reinterpret_cast<uint8_t*>(codes));
    } else {
      const std::span<int8_t> integers{reinterpret_cast<int8_t*>(codes), row.size()};
      scale = quantize_weights(row, integers);
      packed.sums.view().i32()[o] = std::accumulate(integers.begin(), integers.end(), 0);
    }
  }
  return packed;
}

template <class T>
Tensor upload(Ops& ops, DType dtype, std::span<const T> values) {
  Tensor host = host_tensor(dtype, {static_cast<int64_t>(values.size())});
  std::ranges::copy(values, host.view().as<T>());
  return ops.upload(host);
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

std::string_view matrix_type_name(MatrixType type) {
  constexpr std::array<std::string_view, 5> names{"fp32", "bf16", "fp16", "fp8", "int8"};
  return names[static_cast<size_t>(type)];
}

CudaLinear::CudaLinear(Ops& ops, MatrixType type, const TensorView& weight, const TensorView& bias)
    : in_(static_cast<int>(weight.cols())),
      type_(type == MatrixType::int8 && in_ > longest_int8_row ? MatrixType::f32 : type),
      bias_(bias.data == nullptr ? Tensor() : ops.upload(bias)) {
  if (type_ == MatrixType::f32) {
    weight_ = ops.upload(weight);
    return;
  }
  const Words packed = is_coded(type_) ? words_of_codes(type_, weight) : words_of_halves(type_, weight);
  weight_ = ops.upload(packed.words);
  if (!is_coded(type_)) return;
  scales_ = ops.upload(packed.scales);
  sums_ = ops.upload(packed.sums);
}

GemmCall CudaLinear::call(const GemmInput& x, int64_t rows, const Epilogue& epilogue, float* y) const {
  const bool words = type_ != MatrixType::f32;
  return {.x = x,
          .coded = {},
          .weight = words ? nullptr : weight_.view().f32(),
          .weight_words = words ? reinterpret_cast<const uint32_t*>(weight_.view().data) : nullptr,
          .weight_scales = scales_.view().f32(),
          .weight_sums = reinterpret_cast<const int32_t*>(sums_.view().data),
          .bias = bias_.view().f32(),
          .residual = epilogue.residual.f32(),
          .y = y,
          .rows = rows,
          .in = in_features(),
          .out = out_features(),
          .type = type_,
          .activation = gemm_activation(epilogue.activation),
          .scale = epilogue.scale};
}

int run(const KernelTable& kernels, Queue* queue, const GemmCall& call) {
  switch (call.type) {
    case MatrixType::bf16:
      return kernels.gemm_bf16(queue, call);
    case MatrixType::f16:
      return kernels.gemm_f16(queue, call);
    case MatrixType::f8e4m3:
      return kernels.gemm_f8(queue, call);
    case MatrixType::int8:
      return kernels.gemm_int8(queue, call);
    case MatrixType::f32:
      break;
  }
  return kernels.gemm(queue, call);
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

DecoderPages pages(const DecoderKv& kv) {
  KvFormat format = KvFormat::f32;
  if (kv.k.dtype == DType::bf16) format = KvFormat::bf16;
  if (kv.k.dtype == DType::f8e4m3) format = KvFormat::f8e4m3;
  return {.k = kv.k.data,
          .v = kv.v.data,
          .k_scales = kv.k_scales.f32(),
          .v_scales = kv.v_scales.f32(),
          .format = format,
          .heads = static_cast<int32_t>(kv.k.shape[2]),
          .head_dim = static_cast<int32_t>(kv.k.shape[3]),
          .page_tokens = static_cast<int32_t>(kv.k.shape[1])};
}

CudaFbank::CudaFbank(Ops& ops, const FbankTables& tables) : options_(tables.options) {
  const int points = options_.fft_size() / 2;
  if (points > max_fbank_points) {
    throw std::invalid_argument(fmt::format("frames of {} samples: the CUDA backend takes at most {}",
                                            options_.frame_length(), 2 * max_fbank_points));
  }
  std::vector<float> roots;
  for (int k = 0; k < 2 * points; ++k) {
    const double angle = -std::numbers::pi * k / points;
    roots.push_back(static_cast<float>(std::cos(angle)));
    roots.push_back(static_cast<float>(std::sin(angle)));
  }
  std::vector<int32_t> order;
  for (int k = 0; k < points; ++k) order.push_back(digit_reversed(k, points));
  std::vector<int32_t> first_bin;
  std::vector<int32_t> weight_begin{0};
  std::vector<float> weights;
  for (const FbankTables::MelFilter& filter : tables.filters) {
    first_bin.push_back(filter.first_bin);
    weights.insert(weights.end(), filter.weights.begin(), filter.weights.end());
    weight_begin.push_back(static_cast<int32_t>(weights.size()));
  }
  window_ = upload(ops, DType::f32, std::span(tables.window));
  roots_ = upload(ops, DType::f32, std::span<const float>(roots));
  order_ = upload(ops, DType::i32, std::span<const int32_t>(order));
  first_bin_ = upload(ops, DType::i32, std::span<const int32_t>(first_bin));
  weight_begin_ = upload(ops, DType::i32, std::span<const int32_t>(weight_begin));
  weights_ = upload(ops, DType::f32, std::span<const float>(weights));
}

FbankPlanTables CudaFbank::tables() const {
  return {.window = window_.view().f32(),
          .roots = roots_.view().f32(),
          .order = order_.view().i32(),
          .first_bin = first_bin_.view().i32(),
          .weight_begin = weight_begin_.view().i32(),
          .weights = weights_.view().f32(),
          .length = options_.frame_length(),
          .points = options_.fft_size() / 2,
          .mel = options_.num_mel_bins,
          .preemphasis = options_.preemphasis};
}

size_t CudaFbank::samples(int frames) const {
  if (frames == 0) return 0;
  return static_cast<size_t>(frames - 1) * static_cast<size_t>(options_.frame_shift()) +
         static_cast<size_t>(options_.frame_length());
}

CudaSubsampling::CudaSubsampling(Ops& ops, MatrixType type, const SubsamplingWeights& w, int num_mel_bins)
    : mel_(num_mel_bins),
      conv1_weight_(ops.upload(w.conv1_weight)),
      conv1_bias_(ops.upload(w.conv1_bias)),
      // (out, in, time, frequency) to (out, time, frequency, in).
      conv2_(ops, type, inner_outermost(w.conv2_weight, w.conv2_weight.shape[1], 9), w.conv2_bias),
      // Columns c * F + f to f * D + c.
      out_(ops, type, inner_outermost(w.out_weight, w.conv2_weight.shape[0], halve(halve(num_mel_bins))),
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
