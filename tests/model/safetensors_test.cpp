#include "model/safetensors.hpp"

#include <gmock/gmock.h>

#include <random>

#include "config/result.hpp"
#include "model/bfloat16.hpp"
#include "tests/config/temp_directory.hpp"
#include "tests/model/support/pickle_assembler.hpp"

namespace tutti {
namespace {

using test::little_endian;
using test::read_bytes;
using test::TempDirectory;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

class Safetensors : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& header, size_t data_bytes) const {
    return directory_.write("x.safetensors",
                            little_endian(uint64_t{header.size()}) + header + std::string(data_bytes, '\0'));
  }
  void expect_refused(const std::string& header, size_t data_bytes, const std::string& part) const {
    const auto file = write(header, data_bytes);
    EXPECT_THAT([&] { (void)load_safetensors(file); },
                ThrowsMessage<SetupError>(AllOf(StartsWith(file.string() + ": "), HasSubstr(part))));
  }

  TempDirectory directory_;
};

TEST_F(Safetensors, ReadsWhatItWrote) {
  TensorMap tensors;
  tensors.emplace("floats", host_tensor({2, 2}, std::vector<float>{1.5F, -2, 3, 0}));
  tensors.emplace("empty", host_tensor(DType::f32, {3, 0, 2}));
  tensors.emplace("scalar", host_tensor({}, std::vector<float>{9}));
  Tensor integers = host_tensor(DType::i32, {3});
  for (int i = 0; i < 3; ++i) integers.view().i32()[i] = i - 1;
  tensors.emplace("a \"name\" \\ with\nescapes", std::move(integers));
  const auto file = directory_.path() / "x.safetensors";
  save_safetensors(file, tensors);

  EXPECT_EQ(static_cast<unsigned char>(read_bytes(file)[0]) % 8, 0) << "the header is padded";
  const TensorMap read = load_safetensors(file);
  ASSERT_EQ(read.size(), 4U);
  const TensorView floats = read.at("floats");
  EXPECT_EQ(floats.shape, Shape({2, 2}));
  EXPECT_THAT(std::vector<float>(floats.f32(), floats.f32() + 4), ElementsAre(1.5F, -2, 3, 0));
  EXPECT_EQ(read.at("empty").shape(), Shape({3, 0, 2}));
  EXPECT_EQ(read.at("scalar").view().f32()[0], 9);
  const TensorView named = read.at("a \"name\" \\ with\nescapes");
  EXPECT_EQ(named.dtype, DType::i32);
  EXPECT_THAT(std::vector<int32_t>(named.i32(), named.i32() + 3), ElementsAre(-1, 0, 1));
}

TEST_F(Safetensors, ReadsAnEmptyFileOfTensors) {
  EXPECT_TRUE(load_safetensors(write("{}", 0)).empty());
  EXPECT_TRUE(load_safetensors(write(R"({"__metadata__":{"format":"pt"}}   )", 0)).empty());
}

TEST_F(Safetensors, ReadsTheGoldenData) {
  const TensorMap golden =
      load_safetensors(std::filesystem::path(TUTTI_TEST_DATA) / "conformer-u2pp-tiny/golden.safetensors");
  EXPECT_EQ(golden.at("utt0.feats").shape(), Shape({308, 80}));
  EXPECT_EQ(golden.at("utt0.stream.c4_l0.att_cache").shape(), Shape({3, 4, 0, 32}));
  const TensorView starts = golden.at("utt0.stream.c16_lall.chunk_feat_start");
  EXPECT_THAT(std::vector<int32_t>(starts.i32(), starts.i32() + 5), ElementsAre(0, 64, 128, 192, 256));
}

TEST_F(Safetensors, RefusesHeadersOfImpossibleLength) {
  const auto file = directory_.write("x.safetensors", little_endian(~uint64_t{0}) + "{}");
  EXPECT_THAT(
      [&] { (void)load_safetensors(file); },
      ThrowsMessage<SetupError>(HasSubstr("states a header of 18446744073709551615 bytes; at most 2")));
  directory_.write("x.safetensors", "1234567");
  EXPECT_THAT([&] { (void)load_safetensors(file); },
              ThrowsMessage<SetupError>(HasSubstr("shorter than the 8 bytes")));
  EXPECT_THAT([&] { (void)load_safetensors(directory_.path() / "none"); },
              ThrowsMessage<SetupError>(HasSubstr("none: cannot be read: No such file")));
}

TEST_F(Safetensors, RefusesHeadersThatAreNotObjectsOfTensors) {
  expect_refused("", 0, "the header is not a JSON object");
  expect_refused("[]", 0, "the header is not a JSON object");
  expect_refused("{\"a\":", 0, "the header is not a JSON object");
  expect_refused(std::string(5000, '['), 0, "the header is not a JSON object");
  expect_refused(R"({"a":3})", 0, "'a': dtype, shape and data_offsets are expected");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1]}})", 4,
                 "'a': dtype, shape and data_offsets are expected");
  expect_refused(R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", 4, "'a': dtype, shape");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "'a': dtype, shape");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4, "'a': dtype, shape");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4,
                 "data_offsets is not a pair");
  expect_refused(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8,
                 "'a' is of type 'F64'; F32 and I32 are supported");
}

TEST_F(Safetensors, RefusesShapesThatDoNotFit) {
  expect_refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
                 "'a' has bytes 0 to 4 of the data; its shape 2 needs 8");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,3]}})", 3, "needs 4");
  expect_refused(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0,
                 "'a' has more elements than memory can address");
  expect_refused(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4,0],"data_offsets":[0,0]}})", 0,
                 "'a' has more elements than memory can address");
  expect_refused(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}})", 0,
                 "'a' has a negative extent, -1");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1],"data_offsets":[0,4]}})", 4,
                 "'a' has 6 dimensions; at most 5");
}

TEST_F(Safetensors, RefusesDataThatIsNotTiledByItsTensors) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)" + first +
           R"(},"b":{"dtype":"I32","shape":[1],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(load_safetensors(write(two("[4,12]", "[0,4]"), 12)).size(), 2U);
  expect_refused(two("[0,8]", "[4,8]"), 8, "'b' starts at byte 4 of the data; 8 is expected");
  expect_refused(two("[0,8]", "[12,16]"), 16, "'b' starts at byte 12 of the data; 8 is expected");
  expect_refused(two("[1,9]", "[9,13]"), 13, "'a' starts at byte 1 of the data; 0 is expected");
  expect_refused(two("[0,8]", "[8,12]"), 8, "'b' ends at byte 12 of 8 bytes of data");
  expect_refused(two("[0,8]", "[8,4]"), 12, "'b' has bytes 8 to 4 of the data");
  expect_refused(two("[0,8]", "[8,12]"), 16, "has 4 bytes of data after the last tensor");
}

TEST_F(Safetensors, RefusesATwiceNamedTensor) {
  expect_refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                 R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                 8, "'a' appears twice");
}

TEST_F(Safetensors, RefusesToWriteOtherTypesOrToNowhere) {
  TensorMap tensors;
  tensors.emplace("bytes", host_tensor(DType::i8, {4}));
  EXPECT_THAT([&] { save_safetensors(directory_.path() / "x", tensors); },
              ThrowsMessage<SetupError>(HasSubstr("'bytes' is neither F32, I32 nor BF16")));
  EXPECT_THAT([&] { save_safetensors(directory_.path() / "none" / "x", TensorMap{}); },
              ThrowsMessage<SetupError>(HasSubstr("none/x: cannot be written")));
}

TEST_F(Safetensors, ReadsOrRefusesEveryMutationAndTruncation) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  TensorMap tensors;
  tensors.emplace("a", host_tensor(DType::f32, {2, 3}));
  tensors.emplace("b", host_tensor(DType::i32, {1, 0}));
  const auto file = directory_.path() / "x.safetensors";
  save_safetensors(file, tensors);
  const std::string whole = read_bytes(file);
  for (size_t length = 0; length < whole.size(); ++length) {
    directory_.write("x.safetensors", std::string_view(whole).substr(0, length));
    EXPECT_THROW((void)load_safetensors(file), SetupError) << length;
  }
  for (int round = 0; round < 3000; ++round) {
    std::string mutated = whole;
    mutated[random() % mutated.size()] = static_cast<char>(random());
    directory_.write("x.safetensors", mutated);
    try {
      EXPECT_LE(load_safetensors(file).size(), 2U);
    } catch (const SetupError& refusal) {
      EXPECT_THAT(refusal.what(), StartsWith(file.string()));
    }
  }
}

TEST_F(Safetensors, MapsWhatItWroteWithoutACopy) {
  const Tensor vector = host_tensor({3}, std::vector<float>{1, 2, 3});
  const Tensor matrix = narrow_to_bfloat16(host_tensor({1, 3}, std::vector<float>{4, 5, 6}));
  const auto file = directory_.path() / "x.safetensors";
  // The odd number of two-byte elements would put what follows at half a float.
  save_safetensors(file, TensorViewMap{{"a.weight", matrix}, {"b.bias", vector}});
  WeightMap weights = map_safetensors(file);
  const TensorViewMap views = weights.views();
  EXPECT_EQ(views.at("a.weight").dtype, DType::bf16);
  EXPECT_EQ(views.at("a.weight").shape, Shape({1, 3}));
  EXPECT_EQ(weights.take("b.bias").data, views.at("b.bias").data);
  EXPECT_THAT(std::vector<float>(weights.take("b.bias").f32(), weights.take("b.bias").f32() + 3),
              ElementsAre(1, 2, 3));
  EXPECT_EQ(weights.take("a.weight").f32()[2], 6);
}

TEST_F(Safetensors, StaysMappedWhenTheFileIsReplaced) {
  const auto file = directory_.path() / "x.safetensors";
  save_safetensors(file, TensorViewMap{{"a", host_tensor({1}, std::vector<float>{1})}});
  WeightMap weights = map_safetensors(file);
  std::filesystem::remove(file);
  EXPECT_EQ(weights.take("a").f32()[0], 1);
}

TEST_F(Safetensors, RefusesToMapWhatItCannotUseInPlace) {
  const auto expect_unmapped = [&](const std::string& header, size_t data_bytes, const std::string& part) {
    const auto file = write(header, data_bytes);
    EXPECT_THAT([&] { (void)map_safetensors(file); },
                ThrowsMessage<SetupError>(AllOf(StartsWith(file.string() + ": "), HasSubstr(part))));
  };
  expect_unmapped(R"({"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", 4,
                  "'a' is of type 'I32'; F32 and BF16 are supported");
  expect_refused(R"({"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})", 2,
                 "'a' is of type 'BF16'; F32 and I32 are supported");
  expect_unmapped(R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,2]}})", 2, "its shape 2 needs 4");
  expect_unmapped(R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})", 2,
                  "'a' ends at byte 4 of 2 bytes of data");
  std::string header =
      R"({"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  expect_unmapped(header, 6, "'b' does not lie at a multiple of 4 bytes");
}

}  // namespace
}  // namespace tutti
