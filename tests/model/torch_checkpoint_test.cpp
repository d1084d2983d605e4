#include "model/torch_checkpoint.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <random>

#include "config/result.hpp"
#include "tests/config/temp_directory.hpp"
#include "tests/model/support/pickle_assembler.hpp"
#include "tests/model/support/zip_writer.hpp"

namespace tutti {
namespace {

using test::PickleAssembler;
using test::read_bytes;
using test::state_dict_of;
using test::TempDirectory;
using test::write_zip;
using test::ZipEntries;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr int64_t huge = std::numeric_limits<int64_t>::max();

/// `values` as a storage holds them.
std::string float_bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

const std::string six_floats = float_bytes({1, 2, 3, 4, 5, 6});

class TorchCheckpoint : public ::testing::Test {
 protected:
  std::filesystem::path write(const ZipEntries& entries) const {
    write_zip(file(), entries);
    return file();
  }
  [[nodiscard]] WeightMap load(const std::string& pickle, const std::string& storage = six_floats) const {
    return load_torch_checkpoint(write({{"final/data.pkl", pickle}, {"final/data/0", storage}}));
  }
  void expect_refused(const std::string& pickle, const std::string& part) const {
    EXPECT_THAT([&] { (void)load(pickle); },
                ThrowsMessage<SetupError>(AllOf(StartsWith(file().string() + ": "), HasSubstr(part))));
  }
  void expect_refused(const ZipEntries& entries, const std::string& part) const {
    EXPECT_THAT([&] { (void)load_torch_checkpoint(write(entries)); },
                ThrowsMessage<SetupError>(AllOf(StartsWith(file().string() + ": "), HasSubstr(part))));
  }
  [[nodiscard]] std::filesystem::path file() const { return directory_.path() / "final.pt"; }

  TempDirectory directory_;
};

std::vector<float> values_of(const TensorView& view) {
  return {view.f32(), view.f32() + view.shape.elements()};
}

TEST_F(TorchCheckpoint, LoadsAWholeStorage) {
  WeightMap weights = load(state_dict_of({}));
  EXPECT_EQ(weights.size(), 1U);
  EXPECT_EQ(weights.origin(), file().string());
  EXPECT_THAT(values_of(weights.take("weight", {2, 3})), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(TorchCheckpoint, LoadsPartOfAStorage) {
  WeightMap weights = load(state_dict_of({.size = {1, 2}, .stride = {2, 1}, .offset = 3}));
  EXPECT_THAT(values_of(weights.take("weight", {1, 2})), ElementsAre(4, 5));
}

TEST_F(TorchCheckpoint, LoadsScalarsAndEmptyTensors) {
  WeightMap scalar = load(state_dict_of({.size = {}, .stride = {}, .offset = 5}));
  EXPECT_THAT(values_of(scalar.take("weight", {})), ElementsAre(6));
  WeightMap empty = load(state_dict_of({.size = {0, 3}, .stride = {3, 1}, .storage_elements = 0}), "");
  EXPECT_EQ(empty.take("weight").shape, Shape({0, 3}));
}

TEST_F(TorchCheckpoint, LoadsTensorsThatShareAStorage) {
  WeightMap weights =
      load(PickleAssembler().raw("}(").text("a").tensor({}).text("b").tensor({}).raw("u").stop());
  EXPECT_THAT(values_of(weights.take("a")), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(values_of(weights.take("b")), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(TorchCheckpoint, SkipsIntegerTensors) {
  const WeightMap weights = load(PickleAssembler()
                                     .raw("}(")
                                     .text("num_batches_tracked")
                                     .tensor({.size = {}, .stride = {}, .type = "LongStorage", .key = "none"})
                                     .text("weight")
                                     .tensor({})
                                     .raw("u")
                                     .stop());
  EXPECT_EQ(weights.size(), 1U);
  EXPECT_TRUE(weights.contains("weight"));
}

TEST_F(TorchCheckpoint, FindsTheStateDictOfATrainingCheckpoint) {
  for (const char* key : {"model", "state_dict"}) {
    const WeightMap weights = load(PickleAssembler()
                                       .raw("}(")
                                       .text("epoch")
                                       .integer(3)
                                       .text(key)
                                       .raw("}")
                                       .text("weight")
                                       .tensor({})
                                       .raw("su")
                                       .stop());
    EXPECT_TRUE(weights.contains("weight"));
  }
}

TEST_F(TorchCheckpoint, RefusesWhatIsNotATensor) {
  expect_refused(PickleAssembler().raw("]").stop(), "holds a list or tuple; a dict of tensors is expected");
  expect_refused(PickleAssembler().raw("}").text("epoch").integer(3).raw("s").stop(),
                 "'epoch' is an integer; a tensor is expected");
  expect_refused(PickleAssembler().raw("}").integer(3).tensor({}).raw("s").stop(),
                 "a key is an integer; a string is expected");
}

TEST_F(TorchCheckpoint, RefusesATwiceNamedTensor) {
  expect_refused(PickleAssembler().raw("}(").text("a").tensor({}).text("a").tensor({}).raw("u").stop(),
                 "'a' appears twice");
}

TEST_F(TorchCheckpoint, RefusesOtherFloatTypesByName) {
  expect_refused(state_dict_of({.type = "HalfStorage"}), "'weight' is of type float16; float32 is expected");
  expect_refused(state_dict_of({.type = "BFloat16Storage"}), "'weight' is of type bfloat16");
  expect_refused(state_dict_of({.type = "DoubleStorage"}), "'weight' is of type float64");
}

TEST_F(TorchCheckpoint, RefusesViewsBeyondTheirStorage) {
  expect_refused(state_dict_of({.offset = 1}), "'weight' has 6 elements at offset 1 of a storage of 6");
  expect_refused(state_dict_of({.offset = -1}), "at offset -1 of");
  expect_refused(state_dict_of({.offset = huge}), "at offset 9223372036854775807 of");
  expect_refused(state_dict_of({.size = {3, 3}}), "'weight' has 9 elements at offset 0 of a storage of 6");
  expect_refused(state_dict_of({.size = {-2, 3}}), "'weight' has a negative extent, -2");
  expect_refused(state_dict_of({.size = {huge, huge}, .stride = {huge, 1}}),
                 "'weight' has more elements than memory can address");
  expect_refused(state_dict_of({.size = {huge, huge, 0}, .stride = {0, 0, 1}}),
                 "'weight' has more elements than memory can address");
}

TEST_F(TorchCheckpoint, RefusesViewsThatAreNotContiguous) {
  expect_refused(state_dict_of({.stride = {1, 2}}), "'weight' is not contiguous; save tensor.contiguous()");
  expect_refused(state_dict_of({.stride = {0, 1}}), "'weight' is not contiguous");
  expect_refused(state_dict_of({.stride = {huge, 1}}), "'weight' is not contiguous");
  expect_refused(state_dict_of({.stride = {1}}), "'weight' has 2 dimensions and 1 strides");
}

TEST_F(TorchCheckpoint, RefusesStoragesThatDisagreeWithTheirEntry) {
  expect_refused(state_dict_of({.storage_elements = 7}),
                 "'weight' refers to entry 'final/data/0' as 7 float32 values, but it has 24 bytes");
  expect_refused(state_dict_of({.key = "1"}), "'weight' refers to entry 'final/data/1', which is missing");
  expect_refused(state_dict_of({.key = "../data.pkl"}), "which is missing");
  expect_refused({{"final/data.pkl", state_dict_of({})}, {"final/data/0", six_floats + "x"}},
                 "it has 25 bytes");
}

TEST_F(TorchCheckpoint, RefusesTiedTensorsOfManyTimesTheFile) {
  PickleAssembler pickle;
  pickle.raw("}")
      .text("first")
      .tensor({.size = {4096}, .stride = {1}, .storage_elements = 4096})
      .raw("q\x01s(");
  for (int i = 0; i < 8; ++i) pickle.text(std::to_string(i)).raw("h\x01");
  const std::string storage(4096 * sizeof(float), '\0');
  EXPECT_THAT([&] { (void)load(pickle.raw("u").stop(), storage); },
              ThrowsMessage<SetupError>(HasSubstr("more than 4 times the file's")));
}

TEST_F(TorchCheckpoint, RefusesCompressedEntries) {
  write_zip(file(), {{"final/data.pkl", std::string(1000, 'N')}}, true);
  EXPECT_THAT(
      [&] { (void)load_torch_checkpoint(file()); },
      ThrowsMessage<SetupError>(HasSubstr("entry 'final/data.pkl' is compressed; only stored entries")));
}

TEST_F(TorchCheckpoint, RefusesArchivesOfOtherContent) {
  expect_refused({{"readme", "text"}}, "holds no NAME/data.pkl; a file written by torch.save is expected");
  expect_refused({{"data.pkl", state_dict_of({})}}, "holds no NAME/data.pkl");
  expect_refused({{"a/b/data.pkl", state_dict_of({})}}, "holds no NAME/data.pkl");
  expect_refused({{"final/data.pkl", state_dict_of({})}, {"final/byteorder", "big"}}, "byte order 'big'");
}

TEST_F(TorchCheckpoint, AcceptsALittleEndianMark) {
  const auto file = write({{"any name/data.pkl", state_dict_of({})},
                           {"any name/byteorder", "little"},
                           {"any name/data/0", six_floats}});
  EXPECT_TRUE(load_torch_checkpoint(file).contains("weight"));
}

TEST_F(TorchCheckpoint, RefusesFilesThatAreNoArchive) {
  directory_.write("final.pt", "\x80\x02\x8a\x0al\xfc\x9c");
  EXPECT_THAT([&] { (void)load_torch_checkpoint(file()); },
              ThrowsMessage<SetupError>(HasSubstr("is not a zip archive as torch.save writes since 1.6")));
  directory_.write("final.pt", "");
  EXPECT_THROW((void)load_torch_checkpoint(file()), SetupError);
  EXPECT_THAT([&] { (void)load_torch_checkpoint(directory_.path() / "none.pt"); },
              ThrowsMessage<SetupError>(HasSubstr("none.pt: cannot be read: No such file")));
}

TEST_F(TorchCheckpoint, RefusesAStorageWhoseBytesWereChanged) {
  (void)load(state_dict_of({}));
  std::string bytes = read_bytes(file());
  const size_t at = bytes.find(six_floats);
  ASSERT_NE(at, std::string::npos);
  bytes[at] ^= 1;
  directory_.write("final.pt", bytes);
  EXPECT_THAT([&] { (void)load_torch_checkpoint(file()); },
              ThrowsMessage<SetupError>(HasSubstr("entry 'final/data/0' cannot be read: CRC error")));
}

TEST_F(TorchCheckpoint, RefusesEveryTruncation) {
  const std::string whole = read_bytes(std::filesystem::path(TUTTI_TEST_DATA) / "conformer-bn-tiny/final.pt");
  const size_t step = whole.size() / 97;
  for (size_t length = 0; length < whole.size(); length += step) {
    directory_.write("final.pt", std::string_view(whole).substr(0, length));
    EXPECT_THROW((void)load_torch_checkpoint(file()), SetupError) << length;
  }
  for (size_t missing = 1; missing <= 200; ++missing) {
    directory_.write("final.pt", std::string_view(whole).substr(0, whole.size() - missing));
    EXPECT_THROW((void)load_torch_checkpoint(file()), SetupError) << missing;
  }
}

TEST_F(TorchCheckpoint, LoadsOrRefusesEveryMutation) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  (void)load(state_dict_of({}));
  const std::string whole = read_bytes(file());
  size_t refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string mutated = whole;
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      mutated[random() % mutated.size()] = static_cast<char>(random());
    }
    directory_.write("final.pt", mutated);
    try {
      EXPECT_LE(load_torch_checkpoint(file()).size(), 1U);
    } catch (const SetupError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0U);
}

/// FNV-1a over the bytes of all tensors in name order.
uint64_t hash_of(WeightMap& weights) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::string& name : weights.unused()) {
    const TensorView view = weights.take(name);
    for (const std::byte byte : std::span(view.data, view.bytes())) {
      hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
    }
  }
  return hash;
}

TEST_F(TorchCheckpoint, LoadsExactlyWhatPythonReads) {
  struct Expected {
    const char* name;
    size_t tensors;
    uint64_t hash;
  };
  for (const auto& [name, tensors, hash] : {Expected{"conformer-bn-tiny", 160, 0xa4b1b58f5e1d4ff4},
                                            Expected{"conformer-u2pp-tiny", 188, 0xc9a43805878ac921}}) {
    WeightMap weights = load_torch_checkpoint(std::filesystem::path(TUTTI_TEST_DATA) / name / "final.pt");
    EXPECT_EQ(weights.size(), tensors) << name;
    EXPECT_EQ(hash_of(weights), hash) << name;
  }
}

TEST_F(TorchCheckpoint, LoadsKnownValues) {
  WeightMap weights =
      load_torch_checkpoint(std::filesystem::path(TUTTI_TEST_DATA) / "conformer-u2pp-tiny/final.pt");
  const float* ctc = weights.take("ctc.ctc_lo.weight", {40, 64}).f32();
  EXPECT_EQ(ctc[0], 0.36166951060295105F);
  EXPECT_EQ(ctc[40 * 64 - 1], 0.0516398549079895F);
  const float* bias = weights.take("encoder.encoders.0.self_attn.pos_bias_u", {4, 16}).f32();
  EXPECT_EQ(bias[1], -0.03934389352798462F);
  EXPECT_EQ(weights.take("encoder.embed.pos_enc.pe").shape, Shape({1, 5000, 64}));
}

}  // namespace
}  // namespace tutti
