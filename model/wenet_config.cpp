#include "model/wenet_config.hpp"

#include <fmt/format.h>

#include <optional>

#include "model/spec_limits.hpp"
#include "model/yaml_section.hpp"

namespace tutti {
namespace {

/// What the forward pass takes for granted.
void check_architecture(const YamlSection& root, const YamlSection& encoder) {
  if (!root.text("encoder")) root.missing("encoder");
  root.one_of("encoder", "", {"conformer"});
  encoder.one_of("input_layer", "conv2d", {"conv2d"});
  encoder.one_of("pos_enc_layer_type", "rel_pos", {"rel_pos"});
  encoder.one_of("selfattention_layer_type", "rel_selfattn", {"rel_selfattn"});
  encoder.one_of("activation_type", "swish", {"swish"});
  encoder.require("normalize_before", true, true);
  encoder.require("macaron_style", true, true);
  encoder.require("use_cnn_module", true, true);
}

/// A model that never saw chunks in training gives nonsense when it is fed in chunks.
void check_streaming(const YamlSection& encoder) {
  encoder.require("causal", false, true);
  const bool dynamic = encoder.boolean("use_dynamic_chunk").value_or(false);
  if (!dynamic && encoder.integer("static_chunk_size", -1, limits::max_width).value_or(0) <= 0) {
    encoder.refuse("use_dynamic_chunk", "false",
                   "true, or a positive static_chunk_size: the model was not trained for streaming");
  }
}

std::optional<float> read_number(const YamlSection& section, const std::string& key, float low, float high) {
  const auto number = section.number(key);
  if (number && !(*number >= low && *number <= high)) {
    section.refuse(key, std::to_string(*number), fmt::format("a number from {} to {}", low, high));
  }
  return number;
}

void read_encoder(const YamlSection& encoder, ConformerSpec& spec) {
  spec.num_blocks = encoder.required_integer("num_blocks", 1, limits::max_blocks);
  spec.output_size = encoder.required_integer("output_size", 2, limits::max_width);
  spec.attention_heads = encoder.required_integer("attention_heads", 1, limits::max_width);
  spec.linear_units = encoder.required_integer("linear_units", 1, limits::max_width);
  spec.cnn_module_kernel = encoder.integer("cnn_module_kernel", 1, limits::max_kernel).value_or(15);
  spec.batch_norm =
      encoder.one_of("cnn_module_norm", "batch_norm", {"layer_norm", "batch_norm"}) == "batch_norm";
  spec.norm_eps =
      read_number(encoder, "norm_eps", limits::min_norm_eps, limits::max_norm_eps).value_or(spec.norm_eps);
  if (const auto misfit = limits::find_misfit(spec)) {
    encoder.refuse(misfit->key, misfit->value, misfit->accepted);
  }
}

void read_features(const YamlSection& root, FbankOptions& fbank) {
  const YamlSection dataset = root.section("dataset_conf");
  dataset.one_of("feats_type", "fbank", {"fbank"});
  fbank.sample_rate = dataset.section("resample_conf")
                          .integer("resample_rate", limits::sample_rate, limits::sample_rate)
                          .value_or(limits::sample_rate);
  const YamlSection conf = dataset.section("fbank_conf");
  fbank.num_mel_bins = conf.required_integer("num_mel_bins", limits::min_mel_bins, limits::max_mel_bins);
  fbank.frame_length_ms = conf.required_integer("frame_length", 1, limits::max_frame_ms);
  fbank.frame_shift_ms = conf.required_integer("frame_shift", 1, limits::max_frame_ms);
  if (const auto bins = root.integer("input_dim", 1, limits::max_mel_bins);
      bins && *bins != fbank.num_mel_bins) {
    root.refuse("input_dim", std::to_string(*bins),
                "dataset_conf.fbank_conf.num_mel_bins, " + std::to_string(fbank.num_mel_bins));
  }
}

void read_vocabulary(const YamlSection& root, ConformerSpec& spec) {
  const auto output_dim = root.integer("output_dim", 1, limits::max_vocabulary);
  const auto vocab_size = root.integer("vocab_size", 1, limits::max_vocabulary);
  if (output_dim && vocab_size && *output_dim != *vocab_size) {
    root.refuse("vocab_size", std::to_string(*vocab_size), "output_dim, " + std::to_string(*output_dim));
  }
  spec.vocab_size = output_dim ? *output_dim : vocab_size.value_or(0);
  spec.blank_id = root.section("ctc_conf").integer("ctc_blank_id", 0, limits::max_vocabulary).value_or(0);
}

// A decoder of another kind is no reason to refuse a model whose CTC head is enough for all but rescoring.
bool is_supported(const YamlSection& root, const YamlSection& decoder) {
  const auto type = root.text("decoder");
  const auto usual = [&decoder](const char* key, bool fallback, bool wanted) {
    return decoder.boolean(key).value_or(fallback) == wanted;
  };
  return (type == "transformer" || type == "bitransformer") &&
         decoder.text("input_layer").value_or("embed") == "embed" &&
         decoder.text("activation_type").value_or("relu") == "relu" &&
         usual("normalize_before", true, true) && usual("use_output_layer", true, true) &&
         usual("src_attention", true, true) && usual("concat_after", false, false);
}

std::optional<DecoderSpec> read_decoder(const YamlSection& root, const ConformerSpec& spec) {
  const YamlSection decoder = root.section("decoder_conf");
  if (!is_supported(root, decoder)) return std::nullopt;
  DecoderSpec read;
  read.bidirectional = root.text("decoder") == "bitransformer";
  read.num_blocks = decoder.integer("num_blocks", 1, limits::max_blocks).value_or(read.num_blocks);
  read.attention_heads =
      decoder.integer("attention_heads", 1, limits::max_width).value_or(read.attention_heads);
  read.linear_units = decoder.integer("linear_units", 1, limits::max_width).value_or(read.linear_units);
  read.norm_eps =
      read_number(decoder, "norm_eps", limits::min_norm_eps, limits::max_norm_eps).value_or(read.norm_eps);
  if (read.bidirectional) {
    read.reverse_num_blocks = decoder.integer("r_num_blocks", 0, limits::max_blocks).value_or(0);
    // The share of the second decoder in training is its share in scoring. (ctc_weight there weighs losses.)
    read.reverse_weight = read_number(root.section("model_conf"), "reverse_weight", 0, 1)
                              .value_or(limits::default_reverse_weight);
  }
  const YamlSection special = root.section("tokenizer_conf").section("special_tokens");
  read.sos_id = special.integer("<sos>", 0, limits::max_vocabulary).value_or(-1);
  read.eos_id = special.integer("<eos>", 0, limits::max_vocabulary).value_or(-1);
  if (const auto misfit = limits::find_misfit(read, spec)) {
    decoder.refuse(misfit->key, misfit->value, misfit->accepted);
  }
  return read;
}

std::string read_cmvn_file(const YamlSection& root) {
  for (const YamlSection& section : {root.section("cmvn_conf"), root}) {
    section.require("is_json_cmvn", true, true);
    if (auto file = section.text("cmvn_file")) return *file;
  }
  return "global_cmvn";
}

}  // namespace

WenetConfig load_wenet_config(const std::filesystem::path& file) {
  const YamlSection root = YamlSection::load(file.string());
  const YamlSection encoder = root.section("encoder_conf");
  check_architecture(root, encoder);
  check_streaming(encoder);
  WenetConfig config;
  read_encoder(encoder, config.spec);
  read_features(root, config.spec.fbank);
  read_vocabulary(root, config.spec);
  config.spec.decoder = read_decoder(root, config.spec);
  config.cmvn_file = read_cmvn_file(root);
  return config;
}

}  // namespace tutti
