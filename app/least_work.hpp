#pragma once

#include <cstdint>
#include <span>

#include "audio/fbank.hpp"
#include "gpu/ops.hpp"
#include "gpu/weight_type.hpp"

namespace tutti {

/// The least that an operation of Ops has to do, whatever computes it: multiplications and additions of its
/// products, transforms, convolutions and attention; and the bytes of what it reads and writes, each counted
/// once. Of operations that only go through their elements, arithmetic is not counted: moving them takes
/// longer.
struct LeastWork {
  double flops = 0;
  double bytes = 0;
};

/// Each by the operation's arguments, with the weights of products stored as `type`.
namespace least_work {

[[nodiscard]] LeastWork fbank(const FbankOptions& options, std::span<const FbankJob> jobs);
[[nodiscard]] LeastWork cmvn(const TensorView& out);
[[nodiscard]] LeastWork subsample(WeightType type, const TensorView& features, const BatchLayout& layout,
                                  const TensorView& out);
[[nodiscard]] LeastWork linear(WeightType type, const PackedLinear& weights, const TensorView& x,
                               const Epilogue& epilogue);
[[nodiscard]] LeastWork layer_norm(const TensorView& x);
[[nodiscard]] LeastWork paged_attention(const BatchLayout& layout, const PagedKv& kv, const TensorView& out);
[[nodiscard]] LeastWork extend_with_context(const BatchLayout& layout, const TensorView& x,
                                            const TensorView& cache);
[[nodiscard]] LeastWork conv_module(const TensorView& extended, const ConvModuleWeights& weights,
                                    const TensorView& out);
[[nodiscard]] LeastWork log_softmax_top_k(const TensorView& logits, int k);
[[nodiscard]] LeastWork search(std::span<const CtcSearchLane> lanes, int64_t k);
[[nodiscard]] LeastWork embed_tokens(const TensorView& out);
[[nodiscard]] LeastWork append_decoder_kv(const DecoderKv& kv, const TensorView& keys_values);
[[nodiscard]] LeastWork decoder_self_attention(const BatchLayout& layout, const DecoderKv& kv,
                                               const TensorView& out);
[[nodiscard]] LeastWork decoder_cross_attention(const BatchLayout& layout, const DecoderKv& kv,
                                                const TensorView& out);

}  // namespace least_work
}  // namespace tutti
