#include "app/synthetic_model.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <numbers>
#include <random>
#include <string>

#include "config/result.hpp"

namespace tutti {
namespace {

/// Adds the tensors of a WeNet Conformer under their names there.
class Synthesizer {
 public:
  explicit Synthesizer(WeightMap& weights) : weights_(weights) {}

  void constant(const std::string& name, const Shape& shape, float value) {
    Tensor tensor = host_tensor(DType::f32, shape);
    std::fill_n(tensor.view().f32(), shape.elements(), value);
    weights_.add(name, std::move(tensor));
  }

  /// A variance of 1 / inputs keeps the variance of what goes through.
  void random(const std::string& name, const Shape& shape, int64_t inputs) {
    Tensor tensor = host_tensor(DType::f32, shape);
    std::normal_distribution<float> values(0, 1 / std::sqrt(static_cast<float>(inputs)));
    float* const to = tensor.view().f32();
    for (int64_t i = 0; i < shape.elements(); ++i) to[i] = values(random_);
    weights_.add(name, std::move(tensor));
  }

  void linear(const std::string& name, int64_t in, int64_t out) {
    random(name + ".weight", {out, in}, in);
    constant(name + ".bias", {out}, 0);
  }

  void norm(const std::string& name, int64_t width) {
    constant(name + ".weight", {width}, 1);
    constant(name + ".bias", {width}, 0);
  }

  void subsampling(int64_t d, int mel_bins) {
    const std::string name = "encoder.embed.";
    const int64_t bins = ((mel_bins - 1) / 2 - 1) / 2;
    random(name + "conv.0.weight", {d, 1, 3, 3}, 9);
    constant(name + "conv.0.bias", {d}, 0);
    random(name + "conv.2.weight", {d, d, 3, 3}, 9 * d);
    constant(name + "conv.2.bias", {d}, 0);
    linear(name + "out.0", d * bins, d);
  }

  void feed_forward(const std::string& block, const std::string& name, int64_t d, int64_t hidden) {
    norm(block + "norm_ff" + name, d);
    linear(block + "feed_forward" + name + ".w_1", d, hidden);
    linear(block + "feed_forward" + name + ".w_2", hidden, d);
  }

  void projections(const std::string& name, int64_t d) {
    for (const char* part : {"linear_q", "linear_k", "linear_v", "linear_out"}) linear(name + part, d, d);
  }

  void attention(const std::string& block, int64_t d, int64_t heads) {
    const std::string name = block + "self_attn.";
    norm(block + "norm_mha", d);
    projections(name, d);
    random(name + "linear_pos.weight", {d, d}, d);
    random(name + "pos_bias_u", {heads, d / heads}, d);
    random(name + "pos_bias_v", {heads, d / heads}, d);
  }

  void convolution(const std::string& block, int64_t d, int64_t kernel) {
    const std::string name = block + "conv_module.";
    norm(block + "norm_conv", d);
    random(name + "pointwise_conv1.weight", {2 * d, d, 1}, d);
    constant(name + "pointwise_conv1.bias", {2 * d}, 0);
    random(name + "depthwise_conv.weight", {d, 1, kernel}, kernel);
    constant(name + "depthwise_conv.bias", {d}, 0);
    norm(name + "norm", d);
    random(name + "pointwise_conv2.weight", {d, d, 1}, d);
    constant(name + "pointwise_conv2.bias", {d}, 0);
  }

  void decoder(const std::string& name, const ConformerSpec& spec, int blocks) {
    const int64_t d = spec.output_size;
    random(name + "embed.0.weight", {spec.vocab_size, d}, d);
    for (int i = 0; i < blocks; ++i) {
      const std::string block = name + "decoders." + std::to_string(i) + ".";
      projections(block + "self_attn.", d);
      projections(block + "src_attn.", d);
      linear(block + "feed_forward.w_1", d, spec.decoder->linear_units);
      linear(block + "feed_forward.w_2", spec.decoder->linear_units, d);
      for (const char* part : {"norm1", "norm2", "norm3"}) norm(block + part, d);
    }
    norm(name + "after_norm", d);
    linear(name + "output_layer", d, spec.vocab_size);
  }

 private:
  WeightMap& weights_;
  std::mt19937 random_{1};
};

// Takes "NUMBER" after `prefix` off the front of `text`.
bool take_number(std::string_view& text, std::string_view prefix, int& number) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number > 0 && number <= 1 << 20;
}

}  // namespace

ConformerSpec parse_model_size(std::string_view size) {
  ConformerSpec spec;
  std::string_view rest = size;
  const bool read = take_number(rest, "", spec.num_blocks) && take_number(rest, "x", spec.output_size) &&
                    take_number(rest, "x", spec.linear_units) &&
                    take_number(rest, "h", spec.attention_heads) && take_number(rest, "v", spec.vocab_size) &&
                    rest.empty();
  if (!read || spec.vocab_size < 2 || spec.output_size % spec.attention_heads != 0 ||
      spec.output_size % 2 != 0) {
    throw SetupError(
        fmt::format("model size \"{}\": accepted is BLOCKSxWIDTHxUNITShHEADSvTOKENS, such as "
                    "12x256x2048h4v5000, with an even width that the heads divide",
                    size));
  }
  return spec;
}

Checkpoint synthetic_checkpoint(const ConformerSpec& spec) {
  Checkpoint checkpoint{.name = "synthetic", .spec = spec, .weights = WeightMap("synthetic"), .units = {}};
  Synthesizer add(checkpoint.weights);
  const int64_t d = spec.output_size;
  // Brings log-mel energies of 16-bit samples to about mean 0, variance 1.
  add.constant("encoder.global_cmvn.mean", {spec.fbank.num_mel_bins}, 14);
  add.constant("encoder.global_cmvn.istd", {spec.fbank.num_mel_bins}, 0.25F);
  add.subsampling(d, spec.fbank.num_mel_bins);
  for (int i = 0; i < spec.num_blocks; ++i) {
    const std::string block = "encoder.encoders." + std::to_string(i) + ".";
    add.feed_forward(block, "_macaron", d, spec.linear_units);
    add.attention(block, d, spec.attention_heads);
    add.convolution(block, d, spec.cnn_module_kernel);
    add.feed_forward(block, "", d, spec.linear_units);
    add.norm(block + "norm_final", d);
  }
  add.norm("encoder.after_norm", d);
  add.random("ctc.ctc_lo.weight", {spec.vocab_size, d}, d);
  // The largest of V normal values is about sqrt(2 ln V): with this blank wins about every second frame.
  std::vector<float> bias(static_cast<size_t>(spec.vocab_size));
  bias[static_cast<size_t>(spec.blank_id)] = std::sqrt(2 * std::log(static_cast<float>(spec.vocab_size)));
  checkpoint.weights.add("ctc.ctc_lo.bias", host_tensor({spec.vocab_size}, bias));
  if (spec.decoder) {
    const bool both = spec.decoder->bidirectional;
    add.decoder(both ? "decoder.left_decoder." : "decoder.", spec, spec.decoder->num_blocks);
    if (both) add.decoder("decoder.right_decoder.", spec, spec.decoder->reverse_num_blocks);
  }
  checkpoint.units.emplace_back("<blank>");
  for (int i = 1; i < spec.vocab_size; ++i) checkpoint.units.push_back(fmt::format("▁w{}", i));
  return checkpoint;
}

std::vector<float> pseudo_speech(int sample_rate, int64_t samples, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> noise;
  std::uniform_real_distribution<float> uniform(0, 1);
  const float syllables = 3 + 2 * uniform(random);  // a second
  const float pitch = 90 + 150 * uniform(random);   // Hz
  const auto two_pi = 2 * std::numbers::pi_v<float>;
  std::vector<float> out(static_cast<size_t>(samples));
  float low = 0;  // a one-pole low pass: speech has most of its energy below 1 kHz
  for (size_t i = 0; i < out.size(); ++i) {
    const auto time = static_cast<float>(static_cast<double>(i) / sample_rate);
    const float loudness = 0.5F - 0.5F * std::cos(two_pi * std::fmod(syllables * time, 1.0F));
    const float voice = std::fmod(pitch * time, 1.0F) - 0.5F;
    low += 0.3F * (0.3F * noise(random) + voice - low);
    out[i] = 0.3F * loudness * low;
  }
  return out;
}

}  // namespace tutti
