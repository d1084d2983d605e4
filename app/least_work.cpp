#include "app/least_work.hpp"

#include <algorithm>
#include <cmath>

namespace tutti::least_work {
namespace {

constexpr int f32_bytes = 4;

double of_f32(int64_t elements) { return static_cast<double>(elements) * f32_bytes; }

double weight_bytes(WeightType type, int64_t in, int64_t out) {
  const int each = type == WeightType::fp32                               ? 4
                   : type == WeightType::bf16 || type == WeightType::fp16 ? 2
                                                                          : 1;
  return static_cast<double>(in * out) * each + of_f32(out);  // and a bias
}

double product_flops(int64_t rows, int64_t in, int64_t out) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
}

/// Bytes of a token's keys and values.
double token_bytes(const DecoderKv& kv) {
  const auto values = static_cast<double>(2 * kv.k.shape[2] * kv.k.shape[3]);
  const auto scales = kv.k_scales.data == nullptr ? 0.0 : of_f32(2 * kv.k.shape[2]);
  return values * static_cast<double>(size_of(kv.k.dtype)) + scales;
}

}  // namespace

LeastWork fbank(const FbankOptions& options, std::span<const FbankJob> jobs) {
  int64_t frames = 0;
  int64_t samples = 0;
  for (const FbankJob& job : jobs) {
    if (job.frames == 0) continue;
    frames += job.frames;
    samples += int64_t{job.frames - 1} * options.frame_shift() + options.frame_length();
  }
  const double points = options.fft_size();
  // Of a transform of real values.
  const double transform = 2.5 * points * std::log2(points);
  return {.flops = static_cast<double>(frames) * transform,
          .bytes = of_f32(samples + frames * options.num_mel_bins)};
}

LeastWork cmvn(const TensorView& out) { return {.bytes = of_f32(2 * out.shape.elements())}; }

LeastWork subsample(WeightType type, const TensorView& features, const BatchLayout& layout,
                    const TensorView& out) {
  const int64_t width = out.cols();
  const int64_t bins1 = (features.cols() - 1) / 2;
  const int64_t bins2 = (bins1 - 1) / 2;
  int64_t frames1 = 0;  // of the first convolution
  for (int lane = 0; lane < layout.lanes(); ++lane) {
    if (layout.rows(lane) > 0) frames1 += 2 * layout.rows(lane) + 1;
  }
  return {.flops = product_flops(frames1 * bins1, 9, width) +
                   product_flops(layout.rows() * bins2, 9 * width, width) +
                   product_flops(layout.rows(), bins2 * width, width),
          .bytes = weight_bytes(WeightType::fp32, 9, width) + weight_bytes(type, 9 * width, width) +
                   weight_bytes(type, bins2 * width, width) +
                   of_f32(features.shape.elements() + out.shape.elements())};
}

LeastWork linear(WeightType type, const PackedLinear& weights, const TensorView& x,
                 const Epilogue& epilogue) {
  const int64_t in = weights.in_features();
  const int64_t out = weights.out_features();
  const int64_t written_or_added = epilogue.residual.data == nullptr ? 1 : 2;
  return {.flops = product_flops(x.rows(), in, out),
          .bytes = weight_bytes(type, in, out) + of_f32(x.rows() * (in + written_or_added * out))};
}

LeastWork layer_norm(const TensorView& x) { return {.bytes = of_f32(2 * x.shape.elements())}; }

LeastWork paged_attention(const BatchLayout& layout, const PagedKv& kv, const TensorView& out) {
  int64_t pairs = 0;
  int64_t history = 0;
  int64_t longest = 0;
  for (int lane = 0; lane < layout.lanes(); ++lane) {
    const int64_t cached = kv.cache_seqlens[static_cast<size_t>(lane)];
    const int64_t keys = cached + layout.rows(lane);
    pairs += keys * layout.rows(lane);
    history += cached;
    longest = std::max(longest, keys);
  }
  const int64_t width = out.cols();
  // Scores of contents and positions, and the sum of values; queries, keys and values of new rows are read,
  // their keys and values stored, histories read, and the positions, which lanes share.
  return {.flops = 6.0 * static_cast<double>(pairs * width),
          .bytes = of_f32(width * (6 * int64_t{layout.rows()} + 2 * history + longest))};
}

LeastWork extend_with_context(const BatchLayout& layout, const TensorView& x, const TensorView& cache) {
  const int64_t context = layout.lanes() * cache.shape[1];
  return {.bytes = of_f32(x.cols() * (2 * int64_t{layout.rows()} + 3 * context))};
}

LeastWork conv_module(const TensorView& extended, const ConvModuleWeights& weights, const TensorView& out) {
  const int64_t taps = weights.depthwise_weight.cols();
  return {.flops = product_flops(out.rows(), taps, out.cols()),
          .bytes = of_f32(extended.shape.elements() + weights.depthwise_weight.shape.elements() +
                          out.shape.elements())};
}

LeastWork log_softmax_top_k(const TensorView& logits, int k) {
  return {.bytes = of_f32(2 * logits.shape.elements() + 2 * logits.rows() * k)};
}

LeastWork search(std::span<const CtcSearchLane> lanes, int64_t k) {
  int64_t rows = 0;
  for (const CtcSearchLane& lane : lanes) rows += lane.rows;
  return {.bytes = of_f32(rows * (2 * k + 2))};
}

LeastWork embed_tokens(const TensorView& out) { return {.bytes = of_f32(3 * out.shape.elements())}; }

LeastWork append_decoder_kv(const DecoderKv& kv, const TensorView& keys_values) {
  return {.bytes = of_f32(keys_values.shape.elements()) +
                   static_cast<double>(keys_values.rows()) * token_bytes(kv)};
}

LeastWork decoder_self_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& out) {
  int64_t pairs = 0;
  int64_t tokens = 0;
  for (int lane = 0; lane < layout.lanes(); ++lane) {
    const int64_t rows = layout.rows(lane);
    const int64_t history = kv.cache_seqlens[static_cast<size_t>(lane)];
    pairs += rows * history + rows * (rows + 1) / 2;
    tokens += rows + history;  // stored or read
  }
  const int64_t given = out.shape.elements() + 2 * layout.rows() * kv.k.shape[2] * kv.k.shape[3];
  return {.flops = 4.0 * static_cast<double>(pairs * out.cols()),
          .bytes = of_f32(given + out.shape.elements()) + static_cast<double>(tokens) * token_bytes(kv)};
}

LeastWork decoder_cross_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& out) {
  int64_t pairs = 0;
  int64_t tokens = 0;
  for (int lane = 0; lane < layout.lanes(); ++lane) {
    const int64_t cached = kv.cache_seqlens[static_cast<size_t>(lane)];
    pairs += layout.rows(lane) * cached;
    tokens += cached;
  }
  return {.flops = 4.0 * static_cast<double>(pairs * out.cols()),
          .bytes = of_f32(2 * out.shape.elements()) + static_cast<double>(tokens) * token_bytes(kv)};
}

}  // namespace tutti::least_work
