#include "model/wenet_config.hpp"

#include <gmock/gmock.h>

#include <random>

#include "config/result.hpp"
#include "tests/config/temp_directory.hpp"

namespace tutti {
namespace {

using test::read_bytes;
using test::TempDirectory;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr const char* minimal = R"(encoder: conformer
encoder_conf:
  num_blocks: 2
  output_size: 64
  attention_heads: 4
  linear_units: 128
  causal: true
  use_dynamic_chunk: true
dataset_conf:
  fbank_conf:
    num_mel_bins: 80
    frame_length: 25
    frame_shift: 10
)";

class WenetTrainYaml : public ::testing::Test {
 protected:
  [[nodiscard]] WenetConfig load(std::string_view text) const {
    return load_wenet_config(directory_.write("train.yaml", text));
  }
  /// The minimal file with `old_text` replaced.
  static std::string changed(std::string_view old_text, std::string_view new_text) {
    std::string text = minimal;
    const size_t at = text.find(old_text);
    EXPECT_NE(at, std::string::npos) << old_text;
    return text.replace(at, old_text.size(), new_text);
  }
  void expect_refused(std::string_view text, const std::string& part) const {
    EXPECT_THAT([&] { (void)load(text); },
                ThrowsMessage<SetupError>(
                    AllOf(StartsWith((directory_.path() / "train.yaml: ").string()), HasSubstr(part))));
  }
  /// As expect_refused for one more line of encoder_conf.
  void expect_encoder_refused(const std::string& line, const std::string& part) const {
    expect_refused(changed("  num_blocks", "  " + line + "\n  num_blocks"), "encoder_conf." + part);
  }

  TempDirectory directory_;
};

TEST_F(WenetTrainYaml, FillsAbsentKeysWithWenetsDefaults) {
  const WenetConfig config = load(minimal);
  EXPECT_EQ(config.spec.num_blocks, 2);
  EXPECT_EQ(config.spec.output_size, 64);
  EXPECT_EQ(config.spec.attention_heads, 4);
  EXPECT_EQ(config.spec.linear_units, 128);
  EXPECT_EQ(config.spec.cnn_module_kernel, 15);
  EXPECT_TRUE(config.spec.batch_norm);
  EXPECT_EQ(config.spec.norm_eps, 1e-5F);
  EXPECT_EQ(config.spec.vocab_size, 0);
  EXPECT_EQ(config.spec.blank_id, 0);
  EXPECT_EQ(config.spec.fbank.sample_rate, 16000);
  EXPECT_EQ(config.cmvn_file, "global_cmvn");
}

TEST_F(WenetTrainYaml, ReadsTheCurrentLayout) {
  const WenetConfig config =
      load(std::string(minimal) +
           "cmvn_conf: {cmvn_file: stats.json, is_json_cmvn: true}\nctc_conf: {ctc_blank_id: 3}\n"
           "vocab_size: 40\noutput_dim: 40\ninput_dim: 80\n");
  EXPECT_EQ(config.cmvn_file, "stats.json");
  EXPECT_EQ(config.spec.blank_id, 3);
  EXPECT_EQ(config.spec.vocab_size, 40);
}

TEST_F(WenetTrainYaml, ReadsTheOldLayout) {
  const WenetConfig config =
      load(std::string(minimal) + "cmvn_file: /train/exp/stats\nis_json_cmvn: true\noutput_dim: 40\n");
  EXPECT_EQ(config.cmvn_file, "/train/exp/stats");
  EXPECT_EQ(config.spec.vocab_size, 40);
}

TEST_F(WenetTrainYaml, TreatsNullAsAbsent) {
  EXPECT_EQ(load(std::string(minimal) + "cmvn_conf: {cmvn_file: null}\nctc_conf:\n").cmvn_file,
            "global_cmvn");
}

TEST_F(WenetTrainYaml, ReadsATransformerDecoder) {
  const auto decoder = load(std::string(minimal) +
                            "decoder: transformer\ndecoder_conf: {num_blocks: 3, attention_heads: 8, "
                            "linear_units: 256}\nmodel_conf: {ctc_weight: 0.3, reverse_weight: 0.4}\n")
                           .spec.decoder.value();
  EXPECT_FALSE(decoder.bidirectional);
  EXPECT_EQ(decoder.num_blocks, 3);
  EXPECT_EQ(decoder.reverse_num_blocks, 0);
  EXPECT_EQ(decoder.attention_heads, 8);
  EXPECT_EQ(decoder.linear_units, 256);
  EXPECT_EQ(decoder.sos_id, -1);
  EXPECT_EQ(decoder.eos_id, -1);
  EXPECT_EQ(decoder.ctc_weight, 0.5F);
  EXPECT_EQ(decoder.reverse_weight, 0);
}

TEST_F(WenetTrainYaml, ReadsABidirectionalDecoder) {
  const std::string text =
      std::string(minimal) +
      "decoder: bitransformer\ndecoder_conf: {num_blocks: 3, r_num_blocks: 2, norm_eps: 0.001}\n"
      "tokenizer_conf: {special_tokens: {<sos>: 2, <eos>: 3}}\n";
  const auto decoder = load(text).spec.decoder.value();
  EXPECT_TRUE(decoder.bidirectional);
  EXPECT_EQ(decoder.num_blocks, 3);
  EXPECT_EQ(decoder.reverse_num_blocks, 2);
  EXPECT_EQ(decoder.norm_eps, 0.001F);
  EXPECT_EQ(decoder.sos_id, 2);
  EXPECT_EQ(decoder.eos_id, 3);
  EXPECT_EQ(decoder.reverse_weight, 0.3F);
  EXPECT_EQ(load(text + "model_conf: {reverse_weight: 0.4}\n").spec.decoder->reverse_weight, 0.4F);
}

TEST_F(WenetTrainYaml, TakesADecoderThatCannotBeRunForNone) {
  for (const char* decoder :
       {"", "decoder: other\n", "decoder: transformer\ndecoder_conf: {normalize_before: false}\n",
        "decoder: transformer\ndecoder_conf: {activation_type: gelu}\n",
        "decoder: transformer\ndecoder_conf: {input_layer: none}\n"}) {
    EXPECT_FALSE(load(std::string(minimal) + decoder).spec.decoder.has_value()) << decoder;
  }
}

TEST_F(WenetTrainYaml, RefusesDecoderNumbersOutOfRange) {
  const std::string decoder = std::string(minimal) + "decoder: bitransformer\n";
  expect_refused(decoder + "decoder_conf: {attention_heads: 3}\n",
                 "decoder_conf.attention_heads is '3'; accepted: a divisor of the encoder's output_size, 64");
  expect_refused(decoder + "decoder_conf: {num_blocks: 0}\n", "decoder_conf.num_blocks is '0'");
  expect_refused(decoder + "model_conf: {reverse_weight: 2}\n",
                 "model_conf.reverse_weight is '2.000000'; accepted: a number from 0 to 1");
}

TEST_F(WenetTrainYaml, RefusesOtherEncodersWithWhatIsAccepted) {
  expect_refused(changed("encoder: conformer", "encoder: transformer"),
                 "encoder is 'transformer'; accepted: conformer");
  expect_encoder_refused("input_layer: conv2d8", "input_layer is 'conv2d8'; accepted: conv2d");
  expect_encoder_refused("pos_enc_layer_type: abs_pos", "pos_enc_layer_type is 'abs_pos'; accepted: rel_pos");
  expect_encoder_refused("selfattention_layer_type: selfattn",
                         "selfattention_layer_type is 'selfattn'; accepted: rel_selfattn");
  expect_encoder_refused("activation_type: relu", "activation_type is 'relu'; accepted: swish");
  expect_encoder_refused("normalize_before: false", "normalize_before is 'false'; accepted: true");
  expect_encoder_refused("macaron_style: false", "macaron_style is 'false'; accepted: true");
  expect_encoder_refused("use_cnn_module: no", "use_cnn_module is 'false'; accepted: true");
  expect_encoder_refused("cnn_module_norm: rms_norm",
                         "cnn_module_norm is 'rms_norm'; accepted: layer_norm, batch_norm");
  expect_encoder_refused("cnn_module_kernel: 14", "cnn_module_kernel is '14'; accepted: an odd number");
  expect_encoder_refused("norm_eps: -1", "norm_eps is '-1.000000'; accepted: a number from 1e-12 to 1");
}

TEST_F(WenetTrainYaml, RefusesModelsThatWereNotTrainedForStreaming) {
  expect_refused(changed("causal: true", "causal: false"), "encoder_conf.causal is 'false'; accepted: true");
  expect_refused(changed("  causal: true\n", ""), "encoder_conf.causal is 'false'; accepted: true");
  expect_refused(
      changed("  use_dynamic_chunk: true\n", ""),
      "encoder_conf.use_dynamic_chunk is 'false'; accepted: true, or a positive static_chunk_size");
  EXPECT_EQ(load(changed("use_dynamic_chunk: true", "static_chunk_size: 16")).spec.num_blocks, 2);
}

TEST_F(WenetTrainYaml, NamesMissingKeys) {
  expect_refused(changed("encoder: conformer\n", ""), "encoder is missing");
  expect_refused(changed("  num_blocks: 2\n", ""), "encoder_conf.num_blocks is missing");
  expect_refused(changed("  linear_units: 128\n", ""), "encoder_conf.linear_units is missing");
  expect_refused(changed("    num_mel_bins: 80\n", ""), "dataset_conf.fbank_conf.num_mel_bins is missing");
  expect_refused(changed("    frame_shift: 10\n", ""), "dataset_conf.fbank_conf.frame_shift is missing");
}

TEST_F(WenetTrainYaml, RefusesNumbersOutOfRange) {
  expect_refused(changed("num_blocks: 2", "num_blocks: two"),
                 "encoder_conf.num_blocks is 'two'; accepted: a whole number from 1 to 256");
  expect_refused(changed("num_blocks: 2", "num_blocks: 2.5"), "encoder_conf.num_blocks is '2.5'; accepted");
  expect_refused(changed("num_blocks: 2", "num_blocks: 99999999999"), "num_blocks is '99999999999'");
  expect_refused(changed("num_blocks: 2", "num_blocks: 0"), "num_blocks is '0'");
  expect_refused(changed("num_blocks: 2", "num_blocks: [2]"), "num_blocks is 'a list or mapping'");
  expect_refused(changed("output_size: 64", "output_size: 60"),
                 "encoder_conf.output_size is '60'; accepted: a multiple of twice attention_heads, 8");
  expect_refused(changed("num_mel_bins: 80", "num_mel_bins: 6"), "a whole number from 7 to 512");
}

TEST_F(WenetTrainYaml, RefusesOtherFeatures) {
  expect_refused(
      changed("dataset_conf:\n", "dataset_conf:\n  resample_conf: {resample_rate: 8000}\n"),
      "dataset_conf.resample_conf.resample_rate is '8000'; accepted: a whole number from 16000 to 16000");
  expect_refused(changed("dataset_conf:\n", "dataset_conf:\n  feats_type: mfcc\n"),
                 "dataset_conf.feats_type is 'mfcc'; accepted: fbank");
  expect_refused(std::string(minimal) + "input_dim: 40\n", "input_dim is '40'; accepted: ");
  expect_refused(std::string(minimal) + "is_json_cmvn: false\n", "is_json_cmvn is 'false'; accepted: true");
}

TEST_F(WenetTrainYaml, RefusesVocabulariesThatDisagree) {
  expect_refused(std::string(minimal) + "output_dim: 40\nvocab_size: 41\n",
                 "vocab_size is '41'; accepted: output_dim, 40");
}

TEST_F(WenetTrainYaml, RefusesWhatIsNotAMapping) {
  expect_refused("- a\n", "a YAML mapping is expected");
  expect_refused("", "a YAML mapping is expected");
  expect_refused("a: [1, 2", "is not YAML");
  expect_refused(std::string(20000, '['), "is not YAML");
  expect_refused("encoder: conformer\nencoder_conf: 3\n", "encoder_conf is '3'; accepted: a mapping");
  expect_refused("encoder: {a: b}\n", "encoder is 'a list or mapping'; accepted: a string");
}

TEST_F(WenetTrainYaml, LoadsOrRefusesEveryMutation) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::string whole =
      read_bytes(std::filesystem::path(TUTTI_TEST_DATA) / "conformer-u2pp-tiny/train.yaml");
  size_t refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string mutated = whole;
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      mutated[random() % mutated.size()] = static_cast<char>(random());
    }
    try {
      EXPECT_GT(load(mutated).spec.num_blocks, 0);
    } catch (const SetupError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0U);
}

}  // namespace
}  // namespace tutti
