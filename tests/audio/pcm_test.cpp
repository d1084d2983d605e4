#include "audio/pcm.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <string>

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

template <class T>
std::vector<std::byte> little_endian(const std::vector<T>& values) {
  static_assert(std::endian::native == std::endian::little);
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> decode(const PcmFormat& format, std::span<const std::byte> bytes) {
  std::vector<float> samples;
  PcmDecoder(format).decode(bytes, samples);
  return samples;
}

TEST(Encoding, EveryAcceptedNameParsesToItself) {
  for (const auto encoding : {Encoding::pcm_s16le, Encoding::pcm_f32le, Encoding::mulaw, Encoding::alaw}) {
    EXPECT_EQ(parse_encoding(to_string(encoding)), encoding);
    EXPECT_NE(accepted_encodings().find(to_string(encoding)), std::string_view::npos);
  }
}

TEST(Encoding, KnowsTheOtherNamesInUseAndRefusesTheRest) {
  EXPECT_EQ(parse_encoding("linear16"), Encoding::pcm_s16le);
  EXPECT_EQ(parse_encoding("ulaw"), Encoding::mulaw);
  for (const auto* name : {"", "PCM_S16LE", "opus", "pcm_s16", "pcm_s16le "}) {
    EXPECT_EQ(parse_encoding(name), std::nullopt) << name;
  }
}

TEST(PcmDecoder, ScalesInt16ExactlyBy32768) {
  const auto bytes = little_endian<int16_t>({0, 1, -1, 16384, 32767, -32768});
  EXPECT_THAT(decode({}, bytes),
              ElementsAre(0.0F, 1 / 32768.0F, -1 / 32768.0F, 0.5F, 32767 / 32768.0F, -1.0F));
}

TEST(PcmDecoder, ReplacesNonFiniteFloatsAndClipsTheOthers) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const auto bytes = little_endian<float>({nan, inf, -inf, 1.5F, -7.0F, 0.25F, 1.0F});
  EXPECT_THAT(decode({.encoding = Encoding::pcm_f32le}, bytes),
              ElementsAre(0.0F, 0.0F, 0.0F, 1.0F, -1.0F, 0.25F, 1.0F));
}

TEST(PcmDecoder, CarriesASplitSampleToTheNextCall) {
  PcmDecoder decoder(PcmFormat{});
  std::vector<float> samples;
  decoder.decode(bytes_of({0x00, 0x40, 0x00}), samples);
  EXPECT_THAT(samples, ElementsAre(0.5F));
  EXPECT_EQ(decoder.carried_bytes(), 1U);
  decoder.decode({}, samples);
  EXPECT_EQ(decoder.carried_bytes(), 1U);
  decoder.decode(bytes_of({0xc0}), samples);
  EXPECT_THAT(samples, ElementsAre(0.5F, -0.5F));
  EXPECT_EQ(decoder.carried_bytes(), 0U);
}

TEST(PcmDecoder, AveragesInterleavedChannels) {
  const auto bytes = little_endian<int16_t>({16384, 0, -32768, 16384});
  EXPECT_THAT(decode({.channels = 2}, bytes), ElementsAre(0.25F, -0.25F));
}

TEST(PcmDecoder, AveragingEqualChannelsChangesNothing) {
  for (int channels = 1; channels <= max_channels; ++channels) {
    const std::vector<int16_t> frame(static_cast<size_t>(channels), 12345);
    EXPECT_THAT(decode({.channels = channels}, little_endian(frame)), ElementsAre(12345 / 32768.0F));
  }
}

TEST(PcmDecoder, PicksOneChannel) {
  const auto bytes = little_endian<int16_t>({1, 16384, 3, 4, -16384, 6});
  const PcmFormat format{.channels = 3, .mix = ChannelMix::pick, .picked_channel = 1};
  EXPECT_THAT(decode(format, bytes), ElementsAre(0.5F, -0.5F));
}

TEST(PcmDecoder, RefusesImpossibleChannels) {
  for (const int channels : {-1, 0, max_channels + 1}) {
    EXPECT_THROW(PcmDecoder(PcmFormat{.channels = channels}), std::invalid_argument) << channels;
  }
  for (const int picked : {-1, 2}) {
    EXPECT_THROW(PcmDecoder(PcmFormat{.channels = 2, .picked_channel = picked}), std::invalid_argument)
        << picked;
  }
}

TEST(PcmDecoder, GivesTheSameSamplesHoweverTheBytesAreCut) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    PcmFormat format;
    format.encoding = static_cast<Encoding>(random() % 4);
    format.channels = static_cast<int>(random() % 5) + 1;
    format.mix = static_cast<ChannelMix>(random() % 2);
    format.picked_channel = static_cast<int>(random() % static_cast<unsigned>(format.channels));
    std::vector<std::byte> bytes(random() % 500);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());

    const auto whole = decode(format, bytes);
    const auto frame_bytes = static_cast<size_t>(bytes_per_sample(format.encoding) * format.channels);
    ASSERT_EQ(whole.size(), bytes.size() / frame_bytes);
    PcmDecoder decoder(format);
    std::vector<float> pieces;
    for (std::span<const std::byte> rest = bytes; !rest.empty();) {
      const size_t count = std::min<size_t>(random() % 9, rest.size());
      decoder.decode(rest.first(count), pieces);
      rest = rest.subspan(count);
    }
    EXPECT_EQ(pieces, whole);
    EXPECT_EQ(decoder.carried_bytes(), bytes.size() % frame_bytes);
  }
}

std::vector<int16_t> read_table(const std::string& name) {
  std::ifstream file(std::filesystem::path(TUTTI_TEST_DATA) / "g711" / name, std::ios::binary);
  std::vector<int16_t> table(256);
  file.read(reinterpret_cast<char*>(table.data()), 512);
  EXPECT_EQ(file.gcount(), 512) << name;
  return table;
}

TEST(G711, TablesEqualTheReference) {
  EXPECT_THAT(mulaw_table(), ::testing::ElementsAreArray(read_table("ulaw.s16le")));
  EXPECT_THAT(alaw_table(), ::testing::ElementsAreArray(read_table("alaw.s16le")));
}

TEST(PcmDecoder, ReadsG711ThroughItsTable) {
  const auto bytes = bytes_of({0x00, 0x80, 0xff});
  EXPECT_THAT(decode({.encoding = Encoding::mulaw}, bytes),
              ElementsAre(-32124 / 32768.0F, 32124 / 32768.0F, 0.0F));
  EXPECT_THAT(decode({.encoding = Encoding::alaw}, bytes_of({0xd5})), ElementsAre(8 / 32768.0F));
  EXPECT_THAT(decode({.encoding = Encoding::alaw}, {}), IsEmpty());
}

}  // namespace
}  // namespace tutti
