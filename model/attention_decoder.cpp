#include "model/attention_decoder.hpp"

#include <array>
#include <cmath>

#include "model/position_table.hpp"

namespace tutti {
namespace {

// Folding the factor into the table gives the same bits as scaling what is read from it.
Tensor scaled_embedding(Ops& ops, const TensorView& stored) {
  const Tensor scaled = host_tensor(DType::f32, stored.shape);
  const float factor = std::sqrt(static_cast<float>(stored.cols()));
  const float* const from = stored.f32();
  float* const to = scaled.view().f32();
  for (int64_t i = 0; i < stored.shape.elements(); ++i) to[i] = from[i] * factor;
  return ops.upload(scaled);
}

}  // namespace

AttentionDecoder::AttentionDecoder(WeightMap& weights, Ops& ops, const ConformerSpec& spec,
                                   const std::string& prefix, int num_blocks, int max_tokens)
    : width_(spec.output_size),
      hidden_(spec.decoder->linear_units),
      vocabulary_(spec.vocab_size),
      norm_eps_(spec.decoder->norm_eps),
      max_tokens_(max_tokens),
      embedding_(scaled_embedding(ops, weights.take(prefix + "embed.0.weight", {vocabulary_, width_}))),
      positions_(ops.upload(make_position_table(weights, {prefix + "embed.1.pe", encoder_position_table},
                                                max_tokens + 1, width_))) {
  LayerLoader load(weights, ops);
  for (int i = 0; i < num_blocks; ++i) {
    const std::string block = prefix + "decoders." + std::to_string(i) + ".";
    const std::string self = block + "self_attn.linear_";
    const std::string source = block + "src_attn.linear_";
    layers_.push_back({.self_norm = load.norm(block + "norm1", width_),
                       .self_qkv = load.merged({self + "q", self + "k", self + "v"}, width_),
                       .self_out = load.linear(self + "out", width_, width_),
                       .source_norm = load.norm(block + "norm2", width_),
                       .source_q = load.linear(source + "q", width_, width_),
                       .source_kv = load.merged({source + "k", source + "v"}, width_),
                       .source_out = load.linear(source + "out", width_, width_),
                       .ff_norm = load.norm(block + "norm3", width_),
                       .up = load.linear(block + "feed_forward.w_1", width_, hidden_),
                       .down = load.linear(block + "feed_forward.w_2", hidden_, width_)});
  }
  after_norm_ = load.norm(prefix + "after_norm", width_);
  output_ = load.linear(prefix + "output_layer", width_, vocabulary_);
}

DecoderWorkspace AttentionDecoder::make_workspace(Ops& ops, int rows) const {
  DecoderWorkspace ws;
  ws.rows = rows;
  ops.reserve(rows, rows, 0);
  ws.x = ops.allocate(DType::f32, {rows, width_});
  ws.normed = ops.allocate(DType::f32, {rows, width_});
  ws.qkv = ops.allocate(DType::f32, {rows, 3 * width_});
  ws.queries = ops.allocate(DType::f32, {rows, width_});
  ws.source_kv = ops.allocate(DType::f32, {rows, 2 * width_});
  ws.hidden = ops.allocate(DType::f32, {rows, hidden_});
  ws.log_probs = ops.allocate(DType::f32, {rows, vocabulary_});
  ws.best_id = ops.allocate(DType::i32, {rows, 1});
  ws.best = ops.allocate(DType::f32, {rows, 1});
  return ws;
}

void AttentionDecoder::append_source(Ops& ops, DecoderWorkspace& ws, const TensorView& frames,
                                     const DecoderKvBatch& source) const {
  const std::array<int32_t, 2> row_begin{0, static_cast<int32_t>(frames.rows())};
  const TensorView keys_values = ws.source_kv.view().slice(0, frames.rows());
  for (int i = 0; i < num_layers(); ++i) {
    ops.linear(*layers_[static_cast<size_t>(i)].source_kv, frames, {}, keys_values);
    ops.append_decoder_kv({row_begin}, source.layer(i), keys_values);
  }
}

TensorView AttentionDecoder::forward(Ops& ops, DecoderWorkspace& ws, const DecoderStep& step,
                                     const DecoderKvBatch& self, const DecoderKvBatch& source) const {
  const int64_t rows = step.hypotheses.rows();
  const TensorView x = ws.x.view().slice(0, rows);
  const TensorView normed = ws.normed.view().slice(0, rows);
  const TensorView qkv = ws.qkv.view().slice(0, rows);
  const TensorView queries = ws.queries.view().slice(0, rows);
  const TensorView hidden = ws.hidden.view().slice(0, rows);
  const TensorView log_probs = ws.log_probs.view().slice(0, rows);
  const auto norm = [&](const Norm& n) { ops.layer_norm(x, n.gamma, n.beta, norm_eps_, normed); };

  ops.embed_tokens(embedding_, step.tokens, positions_, step.positions, x);
  for (int i = 0; i < num_layers(); ++i) {
    const Layer& layer = layers_[static_cast<size_t>(i)];
    norm(layer.self_norm);
    ops.linear(*layer.self_qkv, normed, {}, qkv);
    ops.decoder_self_attention(step.hypotheses, self.layer(i), qkv, normed);
    ops.linear(*layer.self_out, normed, {.residual = x}, x);
    norm(layer.source_norm);
    ops.linear(*layer.source_q, normed, {}, queries);
    ops.decoder_cross_attention(step.sources, source.layer(i), queries, normed);
    ops.linear(*layer.source_out, normed, {.residual = x}, x);
    norm(layer.ff_norm);
    ops.linear(*layer.up, normed, {.activation = Activation::relu}, hidden);
    ops.linear(*layer.down, hidden, {.residual = x}, x);
  }
  norm(after_norm_);
  ops.linear(*output_, normed, {}, log_probs);
  ops.log_softmax_top_k(log_probs, 1, ws.best_id.view().slice(0, rows), ws.best.view().slice(0, rows));
  return log_probs;
}

std::unique_ptr<const AttentionDecoders> load_decoders(WeightMap& weights, Ops& ops,
                                                       const ConformerSpec& spec, int max_tokens) {
  const DecoderSpec& decoder = *spec.decoder;
  if (!decoder.bidirectional) {
    return std::make_unique<const AttentionDecoders>(AttentionDecoders{
        AttentionDecoder(weights, ops, spec, "decoder.", decoder.num_blocks, max_tokens), nullptr});
  }
  return std::make_unique<const AttentionDecoders>(AttentionDecoders{
      AttentionDecoder(weights, ops, spec, "decoder.left_decoder.", decoder.num_blocks, max_tokens),
      std::make_unique<const AttentionDecoder>(weights, ops, spec, "decoder.right_decoder.",
                                               decoder.reverse_num_blocks, max_tokens)});
}

}  // namespace tutti
