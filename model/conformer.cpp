#include "model/conformer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "config/result.hpp"
#include "model/attention_decoder.hpp"
#include "model/layer_loader.hpp"
#include "model/position_table.hpp"

namespace tutti {

namespace {

struct FeedForward {
  Norm norm;
  std::shared_ptr<const PackedLinear> up;
  std::shared_ptr<const PackedLinear> down;
};

struct Attention {
  Norm norm;
  std::shared_ptr<const PackedLinear> qkv;
  std::shared_ptr<const PackedLinear> out;
  Tensor pos_bias_u;
  Tensor pos_bias_v;
  Tensor positions;  // (max_positions, D): linear_pos(pe), the same for every stream
};

struct Convolution {
  Norm norm;
  std::shared_ptr<const PackedLinear> pointwise1;
  std::shared_ptr<const PackedLinear> pointwise2;
  Tensor depthwise_weight;
  Tensor depthwise_bias;
  Norm inner_norm;  // layer norm, or the folded batch norm
};

struct Block {
  FeedForward macaron;
  Attention attention;
  Convolution convolution;
  FeedForward feed_forward;
  Norm final_norm;
};

/// The layers that only this encoder has.
class EncoderLoader : public LayerLoader {
 public:
  EncoderLoader(WeightMap& weights, Ops& ops, const ConformerSpec& spec)
      : LayerLoader(weights, ops), spec_(spec) {}

  // A 1x1 convolution is a linear layer whose weight has a trailing axis of 1.
  std::shared_ptr<const PackedLinear> pointwise(const std::string& name, int64_t in, int64_t out) {
    TensorView weight = weights().take(name + ".weight", {out, in, 1});
    weight.shape = {out, in};
    return ops().pack_linear(weight, weights().take(name + ".bias", {out}));
  }

  FeedForward feed_forward(const std::string& block, const std::string& norm_name, const std::string& name) {
    const int64_t d = spec_.output_size;
    const int64_t hidden = spec_.linear_units;
    return {norm(block + norm_name, d), linear(block + name + ".w_1", d, hidden),
            linear(block + name + ".w_2", hidden, d)};
  }

  Attention attention(const std::string& block, const Tensor& position_table) {
    const int64_t d = spec_.output_size;
    const std::string name = block + "self_attn.";
    Attention a;
    a.norm = norm(block + "norm_mha", d);
    a.qkv = merged({name + "linear_q", name + "linear_k", name + "linear_v"}, d);
    a.out = linear(name + "linear_out", d, d);
    a.pos_bias_u = flattened(name + "pos_bias_u");
    a.pos_bias_v = flattened(name + "pos_bias_v");
    const auto linear_pos =
        ops().pack_linear(weights().take(name + "linear_pos.weight", {d, d}), TensorView{});
    a.positions = ops().allocate(DType::f32, position_table.shape());
    apply_in_slices(*linear_pos, position_table, a.positions);
    return a;
  }

  Convolution convolution(const std::string& block) {
    const int64_t d = spec_.output_size;
    const std::string name = block + "conv_module.";
    Convolution c;
    c.norm = norm(block + "norm_conv", d);
    c.pointwise1 = pointwise(name + "pointwise_conv1", d, 2 * d);
    TensorView depthwise = weights().take(name + "depthwise_conv.weight", {d, 1, spec_.cnn_module_kernel});
    depthwise.shape = {d, spec_.cnn_module_kernel};
    c.depthwise_weight = ops().upload(depthwise);
    c.depthwise_bias = vector(name + "depthwise_conv.bias", d);
    c.inner_norm = spec_.batch_norm ? folded_batch_norm(name + "norm") : norm(name + "norm", d);
    c.pointwise2 = pointwise(name + "pointwise_conv2", d, d);
    return c;
  }

 private:
  Tensor flattened(const std::string& name) {
    TensorView bias =
        weights().take(name, {spec_.attention_heads, spec_.output_size / spec_.attention_heads});
    bias.shape = {spec_.output_size};
    return ops().upload(bias);
  }

  // At inference (x - mean) / sqrt(var + eps) * weight + bias is a scale and a shift per channel.
  Norm folded_batch_norm(const std::string& name) {
    const int64_t d = spec_.output_size;
    const float* weight = weights().take(name + ".weight", {d}).f32();
    const float* bias = weights().take(name + ".bias", {d}).f32();
    const float* mean = weights().take(name + ".running_mean", {d}).f32();
    const float* var = weights().take(name + ".running_var", {d}).f32();
    const Tensor scale = host_tensor(DType::f32, {d});
    const Tensor shift = host_tensor(DType::f32, {d});
    for (int64_t i = 0; i < d; ++i) {
      const double s = weight[i] / std::sqrt(static_cast<double>(var[i]) + spec_.norm_eps);
      scale.view().f32()[i] = static_cast<float>(s);
      shift.view().f32()[i] = static_cast<float>(bias[i] - mean[i] * s);
    }
    return {ops().upload(scale), ops().upload(shift)};
  }

  void apply_in_slices(const PackedLinear& linear, const TensorView& x, const TensorView& y) {
    constexpr int64_t slice_rows = 64;
    ops().reserve(1, slice_rows, 0);
    for (int64_t begin = 0; begin < x.rows(); begin += slice_rows) {
      const int64_t rows = std::min(slice_rows, x.rows() - begin);
      ops().linear(linear, x.slice(begin, rows), {}, y.slice(begin, rows));
    }
  }

  const ConformerSpec& spec_;
};

}  // namespace

struct ConformerCtc::Impl {
  Impl(Checkpoint checkpoint, Ops& ops, int max_positions, int max_hypothesis_tokens);

  [[nodiscard]] EncoderOutput forward(Ops& ops, EncoderWorkspace& ws, const ChunkBatch& batch,
                                      const PagedKvCache& kv, const CnnCacheManager& cnn,
                                      const Probe* probe) const;

  std::string name;
  ConformerSpec spec;
  TokenTable tokens;
  std::shared_ptr<const PackedFbank> fbank;
  int max_positions;
  Tensor cmvn_mean;
  Tensor cmvn_istd;
  std::shared_ptr<const PackedSubsampling> subsampling;
  std::vector<Block> blocks;
  Norm after_norm;
  std::shared_ptr<const PackedLinear> ctc_head;
  std::unique_ptr<const AttentionDecoders> decoders;
  std::vector<std::string> unused;
  std::string identity;
};

ConformerCtc::Impl::Impl(Checkpoint checkpoint, Ops& ops, int max_positions_, int max_hypothesis_tokens)
    : name(std::move(checkpoint.name)),
      spec(checkpoint.spec),
      tokens(std::move(checkpoint.units)),
      fbank(ops.pack_fbank(FbankTables(spec.fbank))),
      max_positions(max_positions_) {
  WeightMap& weights = checkpoint.weights;
  EncoderLoader load(weights, ops, spec);
  const int64_t d = spec.output_size;
  const int64_t mel = spec.fbank.num_mel_bins;
  const int64_t mel_after = StreamingGeometry::encoder_frames(static_cast<int>(mel));

  cmvn_mean = load.vector("encoder.global_cmvn.mean", mel);
  cmvn_istd = load.vector("encoder.global_cmvn.istd", mel);
  subsampling =
      ops.pack_subsampling({.conv1_weight = weights.take("encoder.embed.conv.0.weight", {d, 1, 3, 3}),
                            .conv1_bias = weights.take("encoder.embed.conv.0.bias", {d}),
                            .conv2_weight = weights.take("encoder.embed.conv.2.weight", {d, d, 3, 3}),
                            .conv2_bias = weights.take("encoder.embed.conv.2.bias", {d}),
                            .out_weight = weights.take("encoder.embed.out.0.weight", {d, d * mel_after}),
                            .out_bias = weights.take("encoder.embed.out.0.bias", {d})},
                           static_cast<int>(mel));
  const Tensor position_table =
      ops.upload(make_position_table(weights, {encoder_position_table}, max_positions, static_cast<int>(d)));
  for (int i = 0; i < spec.num_blocks; ++i) {
    const std::string block = "encoder.encoders." + std::to_string(i) + ".";
    blocks.push_back({.macaron = load.feed_forward(block, "norm_ff_macaron", "feed_forward_macaron"),
                      .attention = load.attention(block, position_table),
                      .convolution = load.convolution(block),
                      .feed_forward = load.feed_forward(block, "norm_ff", "feed_forward"),
                      .final_norm = load.norm(block + "norm_final", d)});
  }
  after_norm = load.norm("encoder.after_norm", d);
  ctc_head = load.linear("ctc.ctc_lo", d, spec.vocab_size);
  if (max_hypothesis_tokens > 0) {
    if (!spec.decoder) {
      throw SetupError("model " + name +
                       " has no attention decoder to rescore with; accepted: a model that has one, or the "
                       "decoder prefix or greedy");
    }
    decoders = load_decoders(weights, ops, spec, max_hypothesis_tokens);
  }
  unused = weights.unused();
}

namespace {

/// One forward pass: the batch, the memory it runs in and who watches.
class Pass {
 public:
  Pass(Ops& ops, EncoderWorkspace& ws, const BatchLayout& layout, const ConformerSpec& spec,
       const Probe* probe)
      : ops_(ops),
        ws_(ws),
        layout_(layout),
        spec_(spec),
        probe_(probe),
        x_(ws.x.view().slice(0, layout.rows())),
        normed_(ws.normed.view().slice(0, layout.rows())) {}

  void feed_forward(const FeedForward& ff, std::string_view norm_label, std::string_view label) {
    const TensorView hidden = ws_.hidden.view().slice(0, layout_.rows());
    norm(ff.norm, x_, normed_, norm_label);
    ops_.linear(*ff.up, normed_, {.activation = Activation::swish}, hidden);
    add_to_residual(*ff.down, hidden, 0.5F, label);
  }

  void attention(const Attention& a, const PagedKv& kv, std::span<const int32_t> first_position) {
    const TensorView qkv = ws_.qkv.view().slice(0, layout_.rows());
    norm(a.norm, x_, normed_, "norm_mha_out");
    ops_.linear(*a.qkv, normed_, {}, qkv);
    ops_.paged_attention(layout_, kv,
                         {.qkv = qkv,
                          .pos_bias_u = a.pos_bias_u,
                          .pos_bias_v = a.pos_bias_v,
                          .positions = a.positions,
                          .first_position = first_position},
                         normed_);
    add_to_residual(*a.out, normed_, 1.0F, "self_attn_out");
  }

  void convolution(const Convolution& c, const TensorView& cache, std::span<const int32_t> slots) {
    const int64_t rows = layout_.rows() + int64_t{layout_.lanes()} * (spec_.cnn_module_kernel - 1);
    const TensorView extended = ws_.extended.view().slice(0, rows);
    const TensorView gates = ws_.gates.view().slice(0, rows);
    norm(c.norm, x_, normed_, "norm_conv_out");
    ops_.extend_with_context(layout_, normed_, slots, cache, extended);
    ops_.linear(*c.pointwise1, extended, {}, gates);
    ops_.conv_module(layout_, gates,
                     {.depthwise_weight = c.depthwise_weight,
                      .depthwise_bias = c.depthwise_bias,
                      .norm_scale = c.inner_norm.gamma,
                      .norm_shift = c.inner_norm.beta,
                      .folded_batch_norm = spec_.batch_norm},
                     spec_.norm_eps, normed_);
    add_to_residual(*c.pointwise2, normed_, 1.0F, "conv_module_out");
  }

  void norm(const Norm& n, const TensorView& x, const TensorView& y, std::string_view label) {
    ops_.layer_norm(x, n.gamma, n.beta, spec_.norm_eps, y);
    observe(label, y);
  }

  void observe(std::string_view label, const TensorView& rows) const {
    if (probe_ != nullptr) (*probe_)(std::string(prefix_) + std::string(label), rows);
  }

  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

  [[nodiscard]] const TensorView& x() const { return x_; }

 private:
  // The residual is added in the product's epilogue, so its own value exists only for a probe, computed
  // beside it.
  void add_to_residual(const PackedLinear& linear, const TensorView& in, float scale,
                       std::string_view label) {
    if (probe_ != nullptr) {
      if (ws_.probed.shape().rank() == 0) ws_.probed = ops_.allocate(DType::f32, ws_.x.shape());
      const TensorView alone = ws_.probed.view().slice(0, layout_.rows());
      ops_.linear(linear, in, {}, alone);
      observe(label, alone);
    }
    ops_.linear(linear, in, {.scale = scale, .residual = x_}, x_);
  }

  Ops& ops_;
  EncoderWorkspace& ws_;
  const BatchLayout& layout_;
  const ConformerSpec& spec_;
  const Probe* probe_;
  std::string prefix_;
  TensorView x_;
  TensorView normed_;
};

}  // namespace

EncoderOutput ConformerCtc::Impl::forward(Ops& ops, EncoderWorkspace& ws, const ChunkBatch& batch,
                                          const PagedKvCache& kv, const CnnCacheManager& cnn,
                                          const Probe* probe) const {
  const size_t lanes = batch.slots.size();
  ws.feature_begin[0] = ws.row_begin[0] = 0;
  for (size_t i = 0; i < lanes; ++i) {
    ws.feature_begin[i + 1] = ws.feature_begin[i] + batch.feature_frames[i];
    ws.row_begin[i + 1] = ws.row_begin[i] + StreamingGeometry::encoder_frames(batch.feature_frames[i]);
  }
  const BatchLayout feature_layout{std::span(ws.feature_begin).first(lanes + 1)};
  const BatchLayout layout{std::span(ws.row_begin).first(lanes + 1)};
  const TensorView features = ws.features.view().slice(0, feature_layout.rows());
  Pass pass(ops, ws, layout, spec, probe);

  ops.cmvn(feature_layout, batch.features, cmvn_mean, cmvn_istd, features);
  pass.observe("cmvn_out", features);
  if (probe != nullptr) {
    ops.subsample(*subsampling, feature_layout, features, layout, 1.0F, pass.x());
    pass.observe("subsample_out_before_xscale", pass.x());
  }
  ops.subsample(*subsampling, feature_layout, features, layout,
                std::sqrt(static_cast<float>(spec.output_size)), pass.x());
  pass.observe("embed_out", pass.x());

  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    const std::string label = probe == nullptr ? std::string() : "block" + std::to_string(i);
    if (probe != nullptr) pass.set_prefix(label + ".");
    pass.feed_forward(block.macaron, "norm_ff_macaron_out", "feed_forward_macaron_out");
    pass.attention(block.attention, kv.layer(static_cast<int>(i)), batch.first_position);
    pass.convolution(block.convolution, cnn.layer(static_cast<int>(i)), batch.slots);
    pass.feed_forward(block.feed_forward, "norm_ff_out", "feed_forward_out");
    if (probe != nullptr) pass.set_prefix("");
    pass.norm(block.final_norm, pass.x(), pass.x(), label + "_out");
  }

  EncoderOutput out{.layout = layout,
                    .encoder_out = ws.encoder_out.view().slice(0, layout.rows()),
                    .log_probs = ws.log_probs.view().slice(0, layout.rows()),
                    .top_ids = ws.top_ids.view().slice(0, layout.rows()),
                    .top_log_probs = ws.top_log_probs.view().slice(0, layout.rows())};
  pass.norm(after_norm, pass.x(), out.encoder_out, "after_norm_out");
  ops.linear(*ctc_head, out.encoder_out, {}, out.log_probs);
  ops.log_softmax_top_k(out.log_probs, ws.top_k, out.top_ids, out.top_log_probs);
  return out;
}

ConformerCtc::ConformerCtc(Checkpoint checkpoint, Ops& ops, int max_positions, int max_hypothesis_tokens,
                           std::string identity)
    : impl_(std::make_unique<Impl>(std::move(checkpoint), ops, max_positions, max_hypothesis_tokens)) {
  impl_->identity = std::move(identity);
}
ConformerCtc::~ConformerCtc() = default;

const std::string& ConformerCtc::name() const { return impl_->name; }
bool ConformerCtc::is_same_model(const ConformerCtc& other) const {
  return this == &other || (!impl_->identity.empty() && impl_->identity == other.impl_->identity);
}
const ConformerSpec& ConformerCtc::spec() const { return impl_->spec; }
const TokenTable& ConformerCtc::tokens() const { return impl_->tokens; }
const PackedFbank& ConformerCtc::fbank() const { return *impl_->fbank; }
int ConformerCtc::max_positions() const { return impl_->max_positions; }
const AttentionDecoders* ConformerCtc::decoders() const { return impl_->decoders.get(); }
const std::vector<std::string>& ConformerCtc::unused_weights() const { return impl_->unused; }

StreamingGeometry ConformerCtc::geometry(int chunk_size) {
  constexpr int subsampling = 4;
  constexpr int context = 7;  // feature frames one encoder frame sees: two 3-wide convolutions of stride 2
  return {.window = (chunk_size - 1) * subsampling + context,
          .stride = chunk_size * subsampling,
          .min_frames = context,
          .subsampling = subsampling};
}

CacheConfig ConformerCtc::cache_config() const {
  const ConformerSpec& s = impl_->spec;
  CacheConfig config;
  config.num_layers = s.num_blocks;
  config.n_kv_head = s.attention_heads;
  config.head_dim = s.output_size / s.attention_heads;
  config.hidden_dim = s.output_size;
  config.kernel_size = s.cnn_module_kernel;
  return config;
}

EncoderWorkspace ConformerCtc::make_workspace(Ops& ops, int chunk_size, int lanes, int top_k) const {
  const ConformerSpec& s = impl_->spec;
  const int64_t rows = int64_t{lanes} * chunk_size;
  const int64_t extended = rows + int64_t{lanes} * (s.cnn_module_kernel - 1);
  const int64_t d = s.output_size;
  const int64_t samples =
      int64_t{geometry(chunk_size).window - 1} * s.fbank.frame_shift() + s.fbank.frame_length();
  ops.reserve(lanes, static_cast<int>(extended), lanes * samples);
  EncoderWorkspace ws;
  ws.lanes = lanes;
  ws.rows = static_cast<int>(rows);
  ws.top_k = std::min(top_k, s.vocab_size);
  ws.features =
      ops.allocate(DType::f32, {int64_t{lanes} * geometry(chunk_size).window, s.fbank.num_mel_bins});
  ws.x = ops.allocate(DType::f32, {rows, d});
  ws.normed = ops.allocate(DType::f32, {rows, d});
  ws.hidden = ops.allocate(DType::f32, {rows, s.linear_units});
  ws.qkv = ops.allocate(DType::f32, {rows, 3 * d});
  ws.extended = ops.allocate(DType::f32, {extended, d});
  ws.gates = ops.allocate(DType::f32, {extended, 2 * d});
  ws.encoder_out = ops.allocate(DType::f32, {rows, d});
  ws.log_probs = ops.allocate(DType::f32, {rows, s.vocab_size});
  ws.top_ids = ops.allocate(DType::i32, {rows, ws.top_k});
  ws.top_log_probs = ops.allocate(DType::f32, {rows, ws.top_k});
  ws.feature_begin.resize(static_cast<size_t>(lanes) + 1);
  ws.row_begin.resize(static_cast<size_t>(lanes) + 1);
  return ws;
}

EncoderOutput ConformerCtc::forward(Ops& ops, EncoderWorkspace& workspace, const ChunkBatch& batch,
                                    const PagedKvCache& kv, const CnnCacheManager& cnn,
                                    const Probe* probe) const {
  return impl_->forward(ops, workspace, batch, kv, cnn, probe);
}

}  // namespace tutti
