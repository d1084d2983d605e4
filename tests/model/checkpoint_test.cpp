#include "model/checkpoint.hpp"

#include <gmock/gmock.h>

#include <map>

#include "config/result.hpp"
#include "tests/config/temp_directory.hpp"
#include "tests/model/support/pickle_assembler.hpp"
#include "tests/model/support/zip_writer.hpp"

namespace tutti {
namespace {

using test::PickleAssembler;
using test::read_bytes;
using test::TempDirectory;
using test::write_zip;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::filesystem::path test_data = TUTTI_TEST_DATA;

TEST(WenetCheckpoint, LoadsTheBatchNormModelOfTheOldLayout) {
  Checkpoint checkpoint = load_wenet_checkpoint(test_data / "conformer-bn-tiny");
  EXPECT_EQ(checkpoint.name, "conformer-bn-tiny");
  EXPECT_EQ(checkpoint.spec.num_blocks, 3);
  EXPECT_EQ(checkpoint.spec.output_size, 64);
  EXPECT_EQ(checkpoint.spec.attention_heads, 4);
  EXPECT_EQ(checkpoint.spec.linear_units, 128);
  EXPECT_EQ(checkpoint.spec.cnn_module_kernel, 15);
  EXPECT_TRUE(checkpoint.spec.batch_norm);
  EXPECT_EQ(checkpoint.spec.vocab_size, 40);
  EXPECT_EQ(checkpoint.spec.blank_id, 0);
  EXPECT_EQ(checkpoint.spec.fbank.num_mel_bins, 80);
  EXPECT_EQ(checkpoint.units.size(), 40U);
  EXPECT_EQ(checkpoint.units[2], "\xe2\x96\x81");
  EXPECT_EQ(checkpoint.weights.size(), 160U);
  EXPECT_EQ(checkpoint.weights.take("encoder.embed.conv.0.weight").shape, Shape({64, 1, 3, 3}));
}

TEST(WenetCheckpoint, LoadsTheLayerNormModelOfTheCurrentLayout) {
  Checkpoint checkpoint = load_wenet_checkpoint(test_data / "conformer-u2pp-tiny" / "");
  EXPECT_EQ(checkpoint.name, "conformer-u2pp-tiny");
  EXPECT_FALSE(checkpoint.spec.batch_norm);
  EXPECT_EQ(checkpoint.spec.vocab_size, 40);
  EXPECT_EQ(checkpoint.units[39], "9");
  EXPECT_EQ(checkpoint.weights.size(), 188U);
}

TEST(WenetCheckpoint, LoadsTheSourceOfTheBundledModel) {
  Checkpoint checkpoint = load_wenet_checkpoint(test_data / "tutti-en-mini");
  const ConformerSpec& spec = checkpoint.spec;
  EXPECT_EQ(checkpoint.name, "tutti-en-mini");
  EXPECT_EQ(checkpoint.units.size(), static_cast<size_t>(spec.vocab_size));
  EXPECT_EQ(checkpoint.weights.take("encoder.after_norm.weight").shape, Shape({spec.output_size}));
  EXPECT_TRUE(checkpoint.weights.contains("encoder.global_cmvn.istd"));
}

TEST(WenetCheckpoint, NamesTheTokensThatTheDecodersBeginAndEndWith) {
  const auto stated = load_wenet_checkpoint(test_data / "conformer-u2pp-tiny").spec.decoder.value();
  EXPECT_TRUE(stated.bidirectional);
  EXPECT_EQ(stated.sos_id, 2);
  EXPECT_EQ(stated.eos_id, 2);
  EXPECT_EQ(stated.reverse_weight, 0.3F);
  const auto last = load_wenet_checkpoint(test_data / "conformer-bn-tiny").spec.decoder.value();
  EXPECT_FALSE(last.bidirectional);
  EXPECT_EQ(last.sos_id, 39);
  EXPECT_EQ(last.eos_id, 39);
  EXPECT_EQ(last.reverse_weight, 0);
  EXPECT_FALSE(load_wenet_checkpoint(test_data / "tutti-en-mini").spec.decoder.has_value());
}

/// A directory that can be spoilt file by file: the small model's text files, and weights of the CTC head
/// alone.
class WenetDirectory : public ::testing::Test {
 protected:
  WenetDirectory() {
    for (const char* name : {"train.yaml", "units.txt", "global_cmvn"}) {
      directory_.write(name, read_bytes(test_data / "conformer-bn-tiny" / name));
    }
    write_weights(40, {});
  }

  /// ctc.ctc_lo.weight of that many rows, and one-element tensors of the other names.
  void write_weights(int64_t rows, const std::vector<std::string>& others) const {
    PickleAssembler pickle;
    pickle.raw("}(").text("ctc.ctc_lo.weight");
    pickle.tensor({.size = {rows, 64}, .stride = {64, 1}, .storage_elements = rows * 64});
    for (const std::string& name : others) {
      pickle.text(name).tensor({.size = {1}, .stride = {1}, .storage_elements = rows * 64});
    }
    write_zip(directory_.path() / "final.pt",
              {{"final/data.pkl", pickle.raw("u").stop()},
               {"final/data/0", std::string(static_cast<size_t>(rows) * 64 * sizeof(float), '\0')}});
  }
  [[nodiscard]] Checkpoint load() const { return load_wenet_checkpoint(directory_.path()); }
  void expect_refused(const std::string& part) const {
    EXPECT_THAT([&] { (void)load(); }, ThrowsMessage<SetupError>(HasSubstr(part)));
  }

  TempDirectory directory_;
};

TEST_F(WenetDirectory, TakesStatisticsFromTheFileWhenTheWeightsHaveNone) {
  Checkpoint checkpoint = load();
  EXPECT_NEAR(checkpoint.weights.take("encoder.global_cmvn.mean", {80}).f32()[0], 9.8595374, 1e-5);
  EXPECT_NEAR(checkpoint.weights.take("encoder.global_cmvn.istd", {80}).f32()[0], 0.36965485, 1e-6);
}

TEST_F(WenetDirectory, NeedsNoFileWhenTheWeightsHaveStatistics) {
  write_weights(40, {"encoder.global_cmvn.mean", "encoder.global_cmvn.istd"});
  std::filesystem::remove(directory_.path() / "global_cmvn");
  EXPECT_EQ(load().weights.size(), 3U);
}

TEST_F(WenetDirectory, FindsStatisticsThatATrainingMachineHadElsewhere) {
  std::string yaml = read_bytes(directory_.path() / "train.yaml");
  constexpr std::string_view key = "cmvn_file: global_cmvn";
  yaml.replace(yaml.find(key), key.size(), "cmvn_file: /no/such/place/stats.json");
  directory_.write("train.yaml", yaml);
  expect_refused("stats.json: no such file");
  std::filesystem::rename(directory_.path() / "global_cmvn", directory_.path() / "stats.json");
  EXPECT_TRUE(load().weights.contains("encoder.global_cmvn.mean"));
}

TEST_F(WenetDirectory, NamesEachMissingFile) {
  for (const char* name : {"final.pt", "train.yaml", "units.txt", "global_cmvn"}) {
    const auto file = directory_.path() / name;
    const auto aside = directory_.path() / "aside";
    std::filesystem::rename(file, aside);
    expect_refused(file.string() +
                   ": no such file; a WeNet checkpoint directory holds final.pt, train.yaml, " +
                   "units.txt and global_cmvn");
    std::filesystem::rename(aside, file);
  }
  EXPECT_THROW((void)load_wenet_checkpoint(directory_.path() / "none"), SetupError);
}

TEST_F(WenetDirectory, RefusesHalfOfTheStatistics) {
  write_weights(40, {"encoder.global_cmvn.mean"});
  expect_refused("final.pt: holds only one of encoder.global_cmvn.mean and encoder.global_cmvn.istd");
}

TEST_F(WenetDirectory, RefusesVocabulariesThatDisagree) {
  write_weights(41, {});
  expect_refused("final.pt: 'ctc.ctc_lo.weight' has shape 41x64; 40x64 is expected");
  directory_.write("units.txt", "a 0\nb 1\n");
  expect_refused("units.txt: has 2 units; output_dim of train.yaml is 40");
}

TEST_F(WenetDirectory, HasNoDecoderWhereItsWeightsAreLeftOut) {
  EXPECT_FALSE(load().spec.decoder.has_value());
  write_weights(40, {"decoder.embed.0.weight"});
  EXPECT_TRUE(load().spec.decoder.has_value());
}

TEST_F(WenetDirectory, RefusesDecoderTokensOutsideTheVocabulary) {
  write_weights(40, {"decoder.embed.0.weight"});
  directory_.write("train.yaml", read_bytes(directory_.path() / "train.yaml") +
                                     "tokenizer_conf: {special_tokens: {<eos>: 40}}\n");
  expect_refused("train.yaml: tokenizer_conf.special_tokens.<eos> is 40; accepted: an id below 40");
}

TEST_F(WenetDirectory, RefusesABlankOutsideTheVocabulary) {
  directory_.write("train.yaml",
                   read_bytes(directory_.path() / "train.yaml") + "ctc_conf: {ctc_blank_id: 40}\n");
  expect_refused("train.yaml: ctc_conf.ctc_blank_id is 40; accepted: an id below 40");
}

}  // namespace
}  // namespace tutti
