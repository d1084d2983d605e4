#include "model/bundle.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <tuple>

#include "config/result.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "model/bfloat16.hpp"
#include "model/conformer.hpp"
#include "model/model_loader.hpp"
#include "model/safetensors.hpp"
#include "tests/config/temp_directory.hpp"

namespace tutti {
namespace {

using test::read_bytes;
using test::TempDirectory;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

const std::filesystem::path test_data = TUTTI_TEST_DATA;

std::vector<std::string> names(const TensorViewMap& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

std::vector<std::string> entries(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

void expect_same_bits(const TensorView& a, const TensorView& b, const std::string& name) {
  ASSERT_EQ(a.dtype, b.dtype) << name;
  ASSERT_EQ(a.shape, b.shape) << name;
  EXPECT_EQ(std::memcmp(a.data, b.data, a.bytes()), 0) << name;
}

/// A bundle of the layer norm model with position tables, in two weight types, written once.
class Bundle : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    written_ = new TempDirectory;
    source_ = new Checkpoint(load_wenet_checkpoint(test_data / "conformer-u2pp-tiny"));
    summary_ = save_bundle(written_->path() / "fp32", *source_, WeightType::fp32);
    (void)save_bundle(written_->path() / "bf16", *source_, WeightType::bf16);
  }
  static void TearDownTestSuite() {
    delete source_;
    delete written_;
  }

  /// A copy that may be spoilt.
  Bundle() { std::filesystem::copy(written_->path() / "bf16", path()); }

  [[nodiscard]] std::filesystem::path path() const { return directory_.path() / "spoilt"; }

  void expect_refused(const std::string& file, const std::string& part) const {
    EXPECT_THAT(
        [&] { (void)load_bundle(path()); },
        ThrowsMessage<SetupError>(AllOf(StartsWith((path() / file).string() + ": "), HasSubstr(part))));
  }
  void write(const std::string& file, const std::string& bytes) const {
    directory_.write("spoilt/" + file, bytes);
  }
  /// Replaces text of config.json and expects the refusal.
  void expect_config_refused(const std::string& old, const std::string& text, const std::string& part) const {
    const std::string whole = read_bytes(written_->path() / "bf16/config.json");
    const size_t at = whole.find(old);
    ASSERT_NE(at, std::string::npos) << old;
    write("config.json", std::string(whole).replace(at, old.size(), text));
    expect_refused("config.json", part);
  }

  static inline TempDirectory* written_ = nullptr;
  static inline Checkpoint* source_ = nullptr;
  static inline BundleSummary summary_;
  TempDirectory directory_;
};

auto described(const DecoderSpec& d) {
  return std::tuple(d.bidirectional, d.num_blocks, d.reverse_num_blocks, d.attention_heads, d.linear_units,
                    d.norm_eps, d.sos_id, d.eos_id, d.ctc_weight, d.reverse_weight);
}

TEST_F(Bundle, ReadsBackAsWhatItWasMadeOf) {
  const Checkpoint read = load_bundle(written_->path() / "fp32");
  EXPECT_EQ(read.name, "conformer-u2pp-tiny");
  EXPECT_EQ(read.units, source_->units);
  const ConformerSpec& a = read.spec;
  const ConformerSpec& b = source_->spec;
  EXPECT_EQ(std::tuple(a.num_blocks, a.output_size, a.attention_heads, a.linear_units, a.cnn_module_kernel,
                       a.batch_norm, a.vocab_size, a.blank_id, a.norm_eps),
            std::tuple(b.num_blocks, b.output_size, b.attention_heads, b.linear_units, b.cnn_module_kernel,
                       b.batch_norm, b.vocab_size, b.blank_id, b.norm_eps));
  EXPECT_EQ(std::tuple(a.fbank.sample_rate, a.fbank.frame_length_ms, a.fbank.frame_shift_ms,
                       a.fbank.num_mel_bins, a.fbank.low_freq, a.fbank.high_freq, a.fbank.preemphasis),
            std::tuple(b.fbank.sample_rate, b.fbank.frame_length_ms, b.fbank.frame_shift_ms,
                       b.fbank.num_mel_bins, b.fbank.low_freq, b.fbank.high_freq, b.fbank.preemphasis));
  EXPECT_EQ(described(read.spec.decoder.value()), described(source_->spec.decoder.value()));
  const TensorViewMap source = source_->weights.views();
  const TensorViewMap tensors = read.weights.views();
  EXPECT_EQ(summary_.tensors, tensors.size());
  for (const auto& [name, tensor] : tensors) expect_same_bits(tensor, source.at(name), name);
}

TEST_F(Bundle, LeavesOutDecoderPositionTablesThatRepeatTheEncoders) {
  std::vector<std::string> expected = names(source_->weights.views());
  std::erase(expected, "decoder.left_decoder.embed.1.pe");
  std::erase(expected, "decoder.right_decoder.embed.1.pe");
  EXPECT_EQ(names(load_bundle(written_->path() / "fp32").weights.views()), expected);
  EXPECT_THAT(expected, Contains("encoder.embed.pos_enc.pe"));
}

TEST_F(Bundle, KeepsADecoderPositionTableThatDiffersInOneBit) {
  Checkpoint checkpoint = *source_;
  checkpoint.weights = WeightMap("edited");
  for (const auto& [name, tensor] : source_->weights.views()) {
    Tensor copy = host_tensor(tensor.dtype, tensor.shape);
    std::memcpy(copy.view().data, tensor.data, tensor.bytes());
    if (name == "decoder.left_decoder.embed.1.pe") copy.view().data[0] ^= std::byte{1};
    checkpoint.weights.add(name, std::move(copy));
  }
  (void)save_bundle(directory_.path() / "edited", checkpoint, WeightType::bf16);
  const TensorViewMap tensors = load_bundle(directory_.path() / "edited").weights.views();
  EXPECT_EQ(tensors.at("decoder.left_decoder.embed.1.pe").dtype, DType::f32);
  EXPECT_FALSE(tensors.contains("decoder.right_decoder.embed.1.pe"));
}

TEST_F(Bundle, RoundsMatricesAndKeepsTheRestInFloat32) {
  const Checkpoint read = load_bundle(written_->path() / "bf16");
  const TensorViewMap source = source_->weights.views();
  for (const auto& [name, tensor] : read.weights.views()) {
    const bool matrix = name.ends_with(".weight") && tensor.shape.rank() >= 2;
    ASSERT_EQ(tensor.dtype, matrix ? DType::bf16 : DType::f32) << name;
    if (matrix) {
      expect_same_bits(tensor, narrow_to_bfloat16(source.at(name)), name);
    } else {
      expect_same_bits(tensor, source.at(name), name);
    }
  }
  const TensorViewMap tensors = read.weights.views();
  EXPECT_EQ(tensors.at("ctc.ctc_lo.weight").dtype, DType::bf16);
  for (const char* name : {"ctc.ctc_lo.bias", "encoder.global_cmvn.mean", "encoder.embed.pos_enc.pe",
                           "encoder.encoders.0.norm_ff.weight", "encoder.encoders.0.self_attn.pos_bias_u"}) {
    EXPECT_EQ(tensors.at(name).dtype, DType::f32) << name;
  }
}

TEST_F(Bundle, IsAsGoodASourceAsACheckpoint) {
  const Checkpoint fp32 = load_bundle(written_->path() / "fp32");
  (void)save_bundle(directory_.path() / "again", fp32, WeightType::bf16);
  for (const char* file : {"config.json", "model.safetensors", "tokens.txt"}) {
    EXPECT_EQ(read_bytes(directory_.path() / "again" / file), read_bytes(written_->path() / "bf16" / file));
  }
}

TEST_F(Bundle, HandsOutFloatsOfTheFileWithoutACopy) {
  Checkpoint read = load_bundle(written_->path() / "bf16");
  const TensorView before = read.weights.views().at("ctc.ctc_lo.bias");
  EXPECT_EQ(read.weights.take("ctc.ctc_lo.bias").data, before.data);
  EXPECT_EQ(read.weights.take("ctc.ctc_lo.weight").dtype, DType::f32);
}

TEST_F(Bundle, KeepsNamesThatNeedCare) {
  Checkpoint checkpoint = *source_;
  checkpoint.name = "a \"name\" \\ Grüße";
  checkpoint.units[1] = "two words";
  checkpoint.units[2] = "\"\\";
  (void)save_bundle(directory_.path() / "named", checkpoint, WeightType::fp32);
  const Checkpoint read = load_bundle(directory_.path() / "named");
  EXPECT_EQ(read.name, checkpoint.name);
  EXPECT_EQ(read.units, checkpoint.units);
}

TEST_F(Bundle, IsOnlyWrittenWhereNothingIs) {
  const auto target = directory_.path() / "target";
  std::filesystem::create_directory(target);
  (void)save_bundle(target / "", *source_, WeightType::fp32);
  EXPECT_THAT(entries(target), ElementsAre("config.json", "model.safetensors", "tokens.txt"));
  const auto refusal = ThrowsMessage<SetupError>(
      HasSubstr("is not free; accepted: a directory that is empty or does not exist"));
  EXPECT_THAT([&] { (void)save_bundle(target, *source_, WeightType::fp32); }, refusal);
  EXPECT_THAT([&] { (void)save_bundle(target / "config.json", *source_, WeightType::fp32); }, refusal);
  EXPECT_THAT([&] { (void)save_bundle(directory_.path() / "none" / "x", *source_, WeightType::fp32); },
              ThrowsMessage<SetupError>(HasSubstr("none/x: cannot be written")));
  EXPECT_THAT(entries(directory_.path()), ElementsAre("spoilt", "target"));
}

TEST_F(Bundle, LeavesNothingBehindWhenItCannotBeReadBack) {
  Checkpoint checkpoint = *source_;
  checkpoint.name = "two\nlines";
  EXPECT_THAT([&] { (void)save_bundle(directory_.path() / "x", checkpoint, WeightType::fp32); },
              ThrowsMessage<SetupError>(HasSubstr("name is 'two?lines'; accepted: 1 to 128 bytes")));
  EXPECT_THAT(entries(directory_.path()), ElementsAre("spoilt"));
}

TEST_F(Bundle, NamesEachMissingFile) {
  for (const char* file : {"config.json", "model.safetensors", "tokens.txt"}) {
    std::filesystem::rename(path() / file, path() / "aside");
    expect_refused(file, "no such file; a bundle holds config.json, model.safetensors and tokens.txt");
    std::filesystem::rename(path() / "aside", path() / file);
  }
}

TEST_F(Bundle, RefusesAConfigurationThatIsNotAnObject) {
  write("config.json", "[]");
  expect_refused("config.json", "is not a JSON object");
  write("config.json", "{\"format\": 1");
  expect_refused("config.json", "is not a JSON object");
  write("config.json", "");
  expect_refused("config.json", "is not a JSON object");
}

TEST_F(Bundle, RefusesKeysThatAreMissingUnknownOrThereTwice) {
  expect_config_refused("\"name\"", "\"nom\"", "name is missing; accepted: a string");
  expect_config_refused("\"num_blocks\": 3,", "",
                        "encoder.num_blocks is missing; accepted: a whole number from 1 to 256");
  expect_config_refused("\"num_blocks\": 3,", "\"num_blocks\": 3, \"layers\": 3,",
                        "encoder.'layers' is not known; accepted: num_blocks, output_size,");
  expect_config_refused("\"format\": 1,", "\"format\": 1, \"torch_dtype\": \"float32\",",
                        "'torch_dtype' is not known; accepted: format, family, name, encoder,");
  expect_config_refused("\"fbank\": {", "\"fbank\": { \"dither\": 1,", "fbank.'dither' is not known");
  expect_config_refused("\"num_blocks\": 3,", "\"num_blocks\": 3, \"num_blocks\": 4,",
                        "encoder.'num_blocks' appears twice");
}

TEST_F(Bundle, RefusesValuesOfAnotherType) {
  expect_config_refused("\"format\": 1", "\"format\": \"1\"", "format is '\"1\"'; accepted: 1");
  expect_config_refused("\"num_blocks\": 3", "\"num_blocks\": 3.0",
                        "encoder.num_blocks is '3.0'; accepted: a whole number from 1 to 256");
  expect_config_refused("\"num_blocks\": 3", "\"num_blocks\": null", "encoder.num_blocks is 'null'");
  expect_config_refused("\"name\": \"conformer-u2pp-tiny\"", "\"name\": 7",
                        "name is '7'; accepted: a string");
  expect_config_refused("\"norm_eps\": 1e-05", "\"norm_eps\": \"small\"",
                        "encoder.norm_eps is '\"small\"'; accepted: a number from 1e-12 to 1");
  expect_config_refused("\"preemphasis\": 0.97", "\"preemphasis\": true", "fbank.preemphasis is 'true'");
  expect_config_refused("\"vocab_size\": 40", "\"vocab_size\": {}", "vocab_size is '{}'");
  const std::string whole = read_bytes(written_->path() / "bf16/config.json");
  const size_t begin = whole.find("{", whole.find("\"fbank\""));
  const std::string object = whole.substr(begin, whole.find("}", begin) + 1 - begin);
  expect_config_refused(object, "[1, 2]", "fbank is '[1,2]'; accepted: an object");
}

TEST_F(Bundle, RefusesValuesOutOfRange) {
  expect_config_refused("\"format\": 1", "\"format\": 2", "format is '2'; accepted: 1");
  expect_config_refused("wenet-conformer-ctc", "whisper",
                        "family is 'whisper'; accepted: \"wenet-conformer-ctc\"");
  expect_config_refused("\"num_blocks\": 3", "\"num_blocks\": 0", "encoder.num_blocks is '0'");
  expect_config_refused("\"num_blocks\": 3", "\"num_blocks\": 4294967297",
                        "encoder.num_blocks is '4294967297'");
  expect_config_refused("\"output_size\": 64", "\"output_size\": 68",
                        "encoder.output_size is '68'; accepted: a multiple of twice attention_heads, 8");
  expect_config_refused("\"cnn_module_kernel\": 15", "\"cnn_module_kernel\": 14",
                        "encoder.cnn_module_kernel is '14'; accepted: an odd number");
  expect_config_refused("layer_norm", "rms_norm",
                        "encoder.cnn_module_norm is 'rms_norm'; accepted: \"layer_norm\", \"batch_norm\"");
  expect_config_refused("\"blank_id\": 0", "\"blank_id\": 40",
                        "blank_id is '40'; accepted: a whole number from 0 to 39");
  expect_config_refused("\"sample_rate\": 16000", "\"sample_rate\": 8000",
                        "fbank.sample_rate is '8000'; accepted: 16000");
  expect_config_refused("\"high_freq\": 0", "\"high_freq\": 10", "mel filters from 20 to 10 Hz");
  expect_config_refused("\"name\": \"conformer-u2pp-tiny\"", "\"name\": \"\"",
                        "name is ''; accepted: 1 to 128 bytes without control characters");
}

TEST_F(Bundle, RefusesADecoderThatDoesNotFit) {
  expect_config_refused("\"type\": \"bitransformer\"", "\"type\": \"lstm\"",
                        "decoder.type is 'lstm'; accepted: \"transformer\", \"bitransformer\"");
  expect_config_refused("\"type\": \"bitransformer\"", "\"type\": \"transformer\"",
                        "decoder.'reverse_num_blocks' is not known");
  expect_config_refused("\"eos_id\": 2", "\"eos_id\": 40",
                        "decoder.eos_id is '40'; accepted: a whole number from 0 to 39");
  expect_config_refused("\"reverse_weight\": 0.3", "\"reverse_weight\": 1.5",
                        "decoder.reverse_weight is '1.5'");
}

TEST_F(Bundle, MayHaveNoDecoder) {
  Checkpoint checkpoint = *source_;
  checkpoint.spec.decoder.reset();
  (void)save_bundle(directory_.path() / "plain", checkpoint, WeightType::fp32);
  EXPECT_FALSE(load_bundle(directory_.path() / "plain").spec.decoder.has_value());
}

TEST_F(Bundle, RefusesAVocabularyOfAnotherSize) {
  write("tokens.txt", "a 0\nb 1\n");
  expect_refused("tokens.txt", "has 2 tokens; vocab_size of config.json is 40");
  write("tokens.txt", "a\n");
  expect_refused("tokens.txt", "line 1: \"token id\" is expected");
}

TEST_F(Bundle, RefusesWeightsThatAreCutShort) {
  const std::string whole = read_bytes(path() / "model.safetensors");
  for (const size_t bytes : {size_t{0}, size_t{7}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    write("model.safetensors", whole.substr(0, bytes));
    expect_refused("model.safetensors", "");
  }
  write("model.safetensors", whole.substr(0, whole.size() - 1));
  expect_refused("model.safetensors", " bytes of data");
}

TEST_F(Bundle, RefusesAModelThatLacksATensorOrHasAnotherShape) {
  const auto load_with = [&](const std::function<void(TensorViewMap&)>& edit) {
    const Checkpoint whole = load_bundle(written_->path() / "bf16");
    TensorViewMap tensors = whole.weights.views();
    edit(tensors);
    std::filesystem::remove(path() / "model.safetensors");
    save_safetensors(path() / "model.safetensors", tensors);
    return [this] {
      const auto ops = make_cpu_ops();
      ConformerCtc(load_bundle(path()), *ops, 16);
    };
  };
  EXPECT_NO_THROW(load_with([](TensorViewMap&) {})());
  EXPECT_THAT(
      load_with([](TensorViewMap& tensors) { tensors.erase("encoder.after_norm.bias"); }),
      ThrowsMessage<SetupError>(HasSubstr("model.safetensors: 'encoder.after_norm.bias' is missing")));
  EXPECT_THAT(load_with([](TensorViewMap& tensors) {
                tensors.at("ctc.ctc_lo.weight").shape = {64, 40};
              }),
              ThrowsMessage<SetupError>(HasSubstr("'ctc.ctc_lo.weight' has shape 64x40; 40x64 is expected")));
}

TEST(ModelLoader, TellsBundlesAndCheckpointsApart) {
  const TempDirectory directory;
  const auto bundle = directory.path() / "bundle";
  const Checkpoint source = load_model(test_data / "conformer-bn-tiny");
  (void)save_bundle(bundle, source, WeightType::fp32);
  EXPECT_EQ(find_model(test_data / "conformer-bn-tiny"), ModelFormat::wenet);
  EXPECT_EQ(find_model(bundle), ModelFormat::bundle);
  EXPECT_EQ(find_model(directory.path()), std::nullopt);
  const Checkpoint read = load_model(bundle);
  EXPECT_TRUE(read.spec.batch_norm);
  EXPECT_EQ(names(read.weights.views()), names(source.weights.views()));
}

TEST(ModelLoader, SaysWhatItLookedFor) {
  const TempDirectory directory;
  EXPECT_THAT([&] { (void)load_model(directory.path()); },
              ThrowsMessage<SetupError>(AllOf(StartsWith(directory.path().string() + ": holds neither "),
                                              HasSubstr("model.safetensors"), HasSubstr("final.pt"))));
  EXPECT_THAT([&] { (void)load_model(directory.path() / "none"); },
              ThrowsMessage<SetupError>(HasSubstr("none: no such directory; a model is a directory with")));
}

TEST(ModelLoader, LoadsTheModelThatComesWithTheProgram) {
  const Checkpoint checkpoint = load_model(std::filesystem::path(TUTTI_MODELS) / "tutti-en-mini");
  EXPECT_EQ(checkpoint.name, "tutti-en-mini");
  EXPECT_EQ(checkpoint.weights.views().at("ctc.ctc_lo.weight").dtype, DType::bf16);
}

}  // namespace
}  // namespace tutti
