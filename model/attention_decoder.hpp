#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/decoder_kv_batch.hpp"
#include "gpu/ops.hpp"
#include "model/checkpoint.hpp"
#include "model/layer_loader.hpp"

namespace tutti {

/// Activation memory for up to `rows` tokens, or as many encoder frames, allocated once by
/// AttentionDecoder::make_workspace.
struct DecoderWorkspace {
  int rows = 0;
  Tensor x;          ///< (rows, D), the residual stream
  Tensor normed;     ///< (rows, D)
  Tensor qkv;        ///< (rows, 3D)
  Tensor queries;    ///< (rows, D), of the cross-attention
  Tensor source_kv;  ///< (rows, 2D), of encoder frames
  Tensor hidden;     ///< (rows, ffn)
  Tensor log_probs;  ///< (rows, V)
  Tensor best_id;    ///< (rows, 1) i32
  Tensor best;       ///< (rows, 1)
};

/// The next tokens of a batch of hypotheses. Hypotheses of one utterance lie side by side.
struct DecoderStep {
  BatchLayout hypotheses;              ///< rows by hypothesis: lanes of the self-attention's cache
  BatchLayout sources;                 ///< the same rows by utterance: lanes of the cross-attention's cache
  std::span<const int32_t> tokens;     ///< rows
  std::span<const int32_t> positions;  ///< rows: how many tokens of the hypothesis, sos included, come before
};

/// A Transformer decoder with cross-attention over encoder frames (WeNet's TransformerDecoder), written
/// against Ops: embedding times sqrt(D) plus positions; per layer self-attention, cross-attention and a ReLU
/// feed-forward, each on normalised input and added to the residual; a norm, the output layer and
/// log-softmax. Its keys and values lie in caches of the caller's. Weights are immutable and shared like the
/// encoder's.
class AttentionDecoder {
 public:
  /// Packs the weights named `prefix` + "embed.0.weight" and so on. Hypotheses may have `max_tokens` tokens.
  /// Throws SetupError for missing or misshapen tensors.
  AttentionDecoder(WeightMap& weights, Ops& ops, const ConformerSpec& spec, const std::string& prefix,
                   int num_blocks, int max_tokens);

  [[nodiscard]] int num_layers() const { return static_cast<int>(layers_.size()); }
  [[nodiscard]] int max_tokens() const { return max_tokens_; }
  [[nodiscard]] DecoderWorkspace make_workspace(Ops& ops, int rows) const;

  /// Appends the keys and values of encoder frames (n, D), n from 1 to the workspace's rows, to the
  /// cross-attention's cache `source`, which has one lane.
  void append_source(Ops& ops, DecoderWorkspace& workspace, const TensorView& frames,
                     const DecoderKvBatch& source) const;

  /// Appends the tokens' keys and values to `self` and returns (rows, V): the log-probability of each token
  /// that may follow. Valid until the workspace is used again.
  TensorView forward(Ops& ops, DecoderWorkspace& workspace, const DecoderStep& step,
                     const DecoderKvBatch& self, const DecoderKvBatch& source) const;

 private:
  struct Layer {
    Norm self_norm;
    std::shared_ptr<const PackedLinear> self_qkv;
    std::shared_ptr<const PackedLinear> self_out;
    Norm source_norm;
    std::shared_ptr<const PackedLinear> source_q;
    std::shared_ptr<const PackedLinear> source_kv;
    std::shared_ptr<const PackedLinear> source_out;
    Norm ff_norm;
    std::shared_ptr<const PackedLinear> up;
    std::shared_ptr<const PackedLinear> down;
  };

  int width_;
  int hidden_;
  int vocabulary_;
  float norm_eps_;
  int max_tokens_;
  Tensor embedding_;  // (V, D), times sqrt(D)
  Tensor positions_;  // (max_tokens + 1, D)
  std::vector<Layer> layers_;
  Norm after_norm_;
  std::shared_ptr<const PackedLinear> output_;
};

/// What a model has of them: reading forwards, and in U2++ also backwards.
struct AttentionDecoders {
  AttentionDecoder left;
  std::unique_ptr<const AttentionDecoder> right;
};

/// The decoders of `spec.decoder`, which there must be.
[[nodiscard]] std::unique_ptr<const AttentionDecoders> load_decoders(WeightMap& weights, Ops& ops,
                                                                     const ConformerSpec& spec,
                                                                     int max_tokens);

}  // namespace tutti
