#include "audio/wav_decoder.hpp"

#include <gmock/gmock.h>

#include "tests/audio/coded_audio.hpp"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Bytes text(std::string_view characters) {
  const auto bytes = std::as_bytes(std::span(characters));
  return {bytes.begin(), bytes.end()};
}

Bytes little_endian(uint64_t value, int size) {
  Bytes bytes;
  for (int i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
  return bytes;
}

Bytes chunk(std::string_view name, const Bytes& body) {
  return joined({text(name), little_endian(body.size(), 4), body, Bytes(body.size() % 2)});
}

Bytes format_body(int tag, int channels, uint32_t rate, int bits) {
  const int frame = channels * bits / 8;
  return joined(
      {little_endian(static_cast<uint64_t>(tag), 2), little_endian(static_cast<uint64_t>(channels), 2),
       little_endian(rate, 4), little_endian(rate * static_cast<uint64_t>(frame), 4),
       little_endian(static_cast<uint64_t>(frame), 2), little_endian(static_cast<uint64_t>(bits), 2)});
}

Bytes wav_head(const Bytes& format, uint32_t data_size) {
  return joined({text("RIFF"), little_endian(0xffffffff, 4), text("WAVE"), chunk("LIST", Bytes(7)),
                 chunk("fmt ", format), text("data"), little_endian(data_size, 4)});
}

TEST(WavDecoder, ReadsTheSamplesBehindTheHeader) {
  const Bytes stream = joined({wav_head(format_body(1, 1, 8000, 16), 4), bytes_of({0x00, 0x40, 0x00, 0xc0}),
                               chunk("LIST", Bytes(6))});
  const Decoded result = decode_container(stream);
  EXPECT_THAT(result.error, IsEmpty());
  EXPECT_EQ(result.sample_rate, 8000);
  EXPECT_THAT(result.samples, ElementsAre(0.5F, -0.5F));
}

TEST(WavDecoder, GoesOnForeverWhereTheLengthWasNotKnown) {
  for (const uint32_t size : {0U, 0xffffffffU, 0x7fffffffU}) {
    const Decoded result =
        decode_container(joined({wav_head(format_body(1, 1, 48000, 16), size), Bytes(20'000)}));
    EXPECT_EQ(result.samples.size(), 10'000U) << size;
  }
}

TEST(WavDecoder, ReadsEveryFormatThatRawAudioMayHave) {
  const auto first = [](const Bytes& format, const Bytes& samples) {
    return decode_container(joined({wav_head(format, 0), samples})).samples;
  };
  EXPECT_THAT(first(format_body(3, 1, 16000, 32), bytes_of({0, 0, 0, 0x3f})), ElementsAre(0.5F));
  EXPECT_THAT(first(format_body(6, 1, 8000, 8), bytes_of({0xd5})), ElementsAre(8 / 32768.0F));
  EXPECT_THAT(first(format_body(7, 1, 8000, 8), bytes_of({0xff})), ElementsAre(0.0F));
  EXPECT_THAT(first(format_body(1, 2, 16000, 16), bytes_of({0x00, 0x40, 0, 0})), ElementsAre(0.25F));
  const Bytes extension = joined({format_body(0xfffe, 1, 16000, 16), little_endian(22, 2),
                                  little_endian(16, 2), little_endian(0, 4), little_endian(1, 2), Bytes(14)});
  EXPECT_THAT(first(extension, bytes_of({0x00, 0x40})), ElementsAre(0.5F));
}

TEST(WavDecoder, RefusesWhatItCannotRead) {
  const auto error_of = [](const Bytes& format) { return decode_container(wav_head(format, 0)).error; };
  EXPECT_THAT(error_of(format_body(1, 1, 16000, 24)),
              AllOf(HasSubstr("24 bits"), HasSubstr("accepted are 16-bit PCM")));
  EXPECT_THAT(error_of(format_body(0x55, 1, 16000, 0)), HasSubstr("format 85"));
  EXPECT_THAT(error_of(format_body(1, 0, 16000, 16)), HasSubstr("0 channels"));
  EXPECT_THAT(error_of(format_body(1, 65, 16000, 16)), HasSubstr("65 channels"));
  EXPECT_THAT(error_of(format_body(1, 1, 3999, 16)), HasSubstr("sample rate of 3999"));
  EXPECT_THAT(error_of(format_body(1, 1, 0xffffffff, 16)), HasSubstr("4294967295"));
  EXPECT_THAT(error_of(Bytes(3)), HasSubstr("has 3 bytes"));
  const Bytes headless = joined({text("RIFF"), little_endian(0, 4), text("WAVE"), chunk("data", Bytes(4))});
  EXPECT_THAT(decode_container(headless).error, HasSubstr("no format before"));
  EXPECT_THAT(decode_container(joined({text("RIFX"), Bytes(4), text("WAVE")})).error, HasSubstr("RIFX"));
}

}  // namespace
}  // namespace tutti::test
