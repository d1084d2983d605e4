#include "model/bundle_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "config/json_writer.hpp"
#include "model/json_section.hpp"
#include "model/spec_limits.hpp"

namespace tutti {
namespace {

constexpr int format_version = 1;
constexpr size_t max_name_bytes = 128;

std::string read_name(JsonSection& root) {
  std::string name = root.text("name");
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (name.empty() || name.size() > max_name_bytes || std::ranges::any_of(name, is_control)) {
    root.refuse("name", name, fmt::format("1 to {} bytes without control characters", max_name_bytes));
  }
  return name;
}

void read_encoder(JsonSection encoder, ConformerSpec& spec) {
  spec.num_blocks = encoder.integer("num_blocks", 1, limits::max_blocks);
  spec.output_size = encoder.integer("output_size", 2, limits::max_width);
  spec.attention_heads = encoder.integer("attention_heads", 1, limits::max_width);
  spec.linear_units = encoder.integer("linear_units", 1, limits::max_width);
  spec.cnn_module_kernel = encoder.integer("cnn_module_kernel", 1, limits::max_kernel);
  spec.batch_norm = encoder.one_of("cnn_module_norm", {"layer_norm", "batch_norm"}) == "batch_norm";
  spec.norm_eps = encoder.number("norm_eps", limits::min_norm_eps, limits::max_norm_eps);
  encoder.refuse_others();
  if (const auto misfit = limits::find_misfit(spec)) {
    encoder.refuse(misfit->key, misfit->value, misfit->accepted);
  }
}

void read_decoder(JsonSection section, ConformerSpec& spec) {
  DecoderSpec& decoder = spec.decoder.emplace();
  decoder.bidirectional = section.one_of("type", {"transformer", "bitransformer"}) == "bitransformer";
  decoder.num_blocks = section.integer("num_blocks", 1, limits::max_blocks);
  if (decoder.bidirectional) {
    decoder.reverse_num_blocks = section.integer("reverse_num_blocks", 0, limits::max_blocks);
  }
  decoder.attention_heads = section.integer("attention_heads", 1, limits::max_width);
  decoder.linear_units = section.integer("linear_units", 1, limits::max_width);
  decoder.norm_eps = section.number("norm_eps", limits::min_norm_eps, limits::max_norm_eps);
  decoder.sos_id = section.integer("sos_id", 0, spec.vocab_size - 1);
  decoder.eos_id = section.integer("eos_id", 0, spec.vocab_size - 1);
  decoder.ctc_weight = section.number("ctc_weight", 0, limits::max_ctc_weight);
  if (decoder.bidirectional) decoder.reverse_weight = section.number("reverse_weight", 0, 1);
  section.refuse_others();
  if (const auto misfit = limits::find_misfit(decoder, spec)) {
    section.refuse(misfit->key, misfit->value, misfit->accepted);
  }
}

void write_decoder(JsonWriter& json, const DecoderSpec& decoder) {
  json.key("decoder").begin_object();
  json.key("type").string(decoder.bidirectional ? "bitransformer" : "transformer");
  json.key("num_blocks").integer(decoder.num_blocks);
  if (decoder.bidirectional) json.key("reverse_num_blocks").integer(decoder.reverse_num_blocks);
  json.key("attention_heads").integer(decoder.attention_heads);
  json.key("linear_units").integer(decoder.linear_units);
  json.key("norm_eps").number(decoder.norm_eps);
  json.key("sos_id").integer(decoder.sos_id);
  json.key("eos_id").integer(decoder.eos_id);
  json.key("ctc_weight").number(decoder.ctc_weight);
  if (decoder.bidirectional) json.key("reverse_weight").number(decoder.reverse_weight);
  json.end_object();
}

void read_fbank(JsonSection section, FbankOptions& fbank) {
  fbank.sample_rate = section.integer("sample_rate", limits::sample_rate, limits::sample_rate);
  const float nyquist = static_cast<float>(fbank.sample_rate) / 2;
  fbank.frame_length_ms = section.integer("frame_length_ms", 1, limits::max_frame_ms);
  fbank.frame_shift_ms = section.integer("frame_shift_ms", 1, limits::max_frame_ms);
  fbank.num_mel_bins = section.integer("num_mel_bins", limits::min_mel_bins, limits::max_mel_bins);
  fbank.low_freq = section.number("low_freq", 0, nyquist);
  fbank.high_freq = section.number("high_freq", -nyquist, nyquist);
  fbank.preemphasis = section.number("preemphasis", 0, 1);
  section.refuse_others();
  try {
    (void)FbankTables(fbank);  // knows which numbers go together
  } catch (const std::invalid_argument& misfit) {
    section.refuse(misfit.what());
  }
}

}  // namespace

BundleConfig read_bundle_config(const std::filesystem::path& file) {
  simdjson::dom::parser parser;
  JsonSection root = JsonSection::load(file.string(), parser);
  // First, because another version may have other keys.
  (void)root.integer("format", format_version, format_version);
  (void)root.one_of("family", {conformer_family});
  BundleConfig config;
  config.name = read_name(root);
  read_encoder(root.section("encoder"), config.spec);
  config.spec.vocab_size = root.integer("vocab_size", 1, limits::max_vocabulary);
  config.spec.blank_id = root.integer("blank_id", 0, config.spec.vocab_size - 1);
  if (root.contains("decoder")) read_decoder(root.section("decoder"), config.spec);
  read_fbank(root.section("fbank"), config.spec.fbank);
  root.refuse_others();
  return config;
}

std::string render_bundle_config(const BundleConfig& config) {
  const ConformerSpec& spec = config.spec;
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object();
  json.key("format").integer(format_version);
  json.key("family").string(conformer_family);
  json.key("name").string(config.name);
  json.key("encoder").begin_object();
  json.key("num_blocks").integer(spec.num_blocks);
  json.key("output_size").integer(spec.output_size);
  json.key("attention_heads").integer(spec.attention_heads);
  json.key("linear_units").integer(spec.linear_units);
  json.key("cnn_module_kernel").integer(spec.cnn_module_kernel);
  json.key("cnn_module_norm").string(spec.batch_norm ? "batch_norm" : "layer_norm");
  json.key("norm_eps").number(spec.norm_eps);
  json.end_object();
  json.key("vocab_size").integer(spec.vocab_size);
  json.key("blank_id").integer(spec.blank_id);
  if (spec.decoder) write_decoder(json, *spec.decoder);
  json.key("fbank").begin_object();
  json.key("sample_rate").integer(spec.fbank.sample_rate);
  json.key("frame_length_ms").integer(spec.fbank.frame_length_ms);
  json.key("frame_shift_ms").integer(spec.fbank.frame_shift_ms);
  json.key("num_mel_bins").integer(spec.fbank.num_mel_bins);
  json.key("low_freq").number(spec.fbank.low_freq);
  json.key("high_freq").number(spec.fbank.high_freq);
  json.key("preemphasis").number(spec.fbank.preemphasis);
  json.end_object();
  json.end_object();
  return std::move(json).take() + '\n';
}

}  // namespace tutti
