#include <gmock/gmock.h>

#include "audio/opus_framing.hpp"
#include "audio/opus_packet_decoder.hpp"
#include "tests/audio/coded_audio.hpp"
#include "tests/audio/webm_writer.hpp"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(OpusPacket, ReadsAHeader) {
  const auto head =
      parse_opus_head(joined({bytes_of({'O', 'p', 'u', 's', 'H', 'e', 'a', 'd', 1, 2, 0x38, 0x01}),
                              bytes_of({0, 0, 0, 0, 0x00, 0xff, 0})}));
  ASSERT_TRUE(head);
  EXPECT_EQ(head->channels, 2);
  EXPECT_EQ(head->pre_skip, 312);
  EXPECT_EQ(head->gain, -256);
}

TEST(OpusPacket, RefusesAHeaderItDoesNotUnderstand) {
  const auto error_of = [](const Bytes& bytes) { return parse_opus_head(bytes).error().message; };
  EXPECT_THAT(error_of(Bytes(19)), HasSubstr("OpusHead"));
  Bytes head = opus_head();
  head.pop_back();
  EXPECT_THAT(error_of(head), HasSubstr("18 bytes"));
  head = opus_head();
  head[8] = std::byte{16};
  EXPECT_THAT(error_of(head), HasSubstr("version 16"));
  EXPECT_THAT(error_of(opus_head(6, 0, 1)), HasSubstr("6 channels of mapping family 1"));
  EXPECT_THAT(error_of(opus_head(0)), HasSubstr("0 channels"));
}

TEST(OpusPacket, CountsItsSamples) {
  EXPECT_EQ(opus_packet_samples(bytes_of({0x48})), 960);
  EXPECT_EQ(opus_packet_samples(bytes_of({0x4b, 6})), 5760);
  EXPECT_EQ(opus_packet_samples(bytes_of({0x4b, 7})), 0);
  EXPECT_EQ(opus_packet_samples({}), 0);
}

TEST(OpusPacketDecoder, LeavesOutPreSkipAndWhatIsDiscarded) {
  OpusPacketDecoder decoder;
  decoder.begin({.pre_skip = 1500});
  std::vector<float> out;
  ASSERT_TRUE(decoder.decode(bytes_of({0x48}), 0, out));
  EXPECT_THAT(out, IsEmpty());
  ASSERT_TRUE(decoder.decode(bytes_of({0x48}), 0, out));
  EXPECT_EQ(out.size(), 140U);
  ASSERT_TRUE(decoder.decode(bytes_of({0x48}), 961, out));
  EXPECT_EQ(out.size(), 140U);
  ASSERT_TRUE(decoder.decode(bytes_of({0x48}), 30, out));
  EXPECT_EQ(out.size(), 450U);
}

TEST(OpusPacketDecoder, KeepsTheClockWhereThirdsDoNotComeOut) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  OpusPacketDecoder decoder;
  std::vector<float> out;
  int64_t kept = 0;
  for (int i = 0; i < 500; ++i) {
    const int64_t discarded = std::uniform_int_distribution<int64_t>(0, 960)(random);
    ASSERT_TRUE(decoder.decode(bytes_of({0x48}), discarded, out));
    kept += 960 - discarded;
    ASSERT_EQ(static_cast<int64_t>(out.size()), kept / 3) << i;
  }
}

TEST(OpusPacketDecoder, ConcealsWhatIsMissingAndFadesOut) {
  const auto packets = demux<OggDemuxer>(read_bytes(opus_data("opusenc.opus"))).packets;
  OpusPacketDecoder decoder;
  std::vector<float> out;
  for (size_t i = 0; i < 60; ++i) ASSERT_TRUE(decoder.decode(packets[i].bytes, 0, out));
  out.clear();
  for (int i = 0; i < 5; ++i) decoder.conceal(333, out);
  ASSERT_EQ(out.size(), 5U * 333);
  EXPECT_GT(energy(std::span(out).first(320)), 1e-4);
  EXPECT_EQ(energy(std::span(out).subspan(960)), 0);
}

TEST(OpusPacketDecoder, IsSilentBeforeTheFirstPacket) {
  OpusPacketDecoder decoder;
  std::vector<float> out;
  decoder.conceal(1000, out);
  EXPECT_EQ(out, std::vector<float>(1000));
}

TEST(OpusPacketDecoder, AppliesTheGainOfTheHeader) {
  const auto packets = demux<OggDemuxer>(read_bytes(opus_data("opusenc.opus"))).packets;
  const auto energy_at = [&](int gain) {
    OpusPacketDecoder decoder;
    decoder.begin({.gain = gain});
    std::vector<float> out;
    for (size_t i = 0; i < 60; ++i) EXPECT_TRUE(decoder.decode(packets[i].bytes, 0, out));
    return energy(out);
  };
  EXPECT_NEAR(energy_at(-256 * 20) / energy_at(0), 0.01, 0.001);
}

TEST(OpusPacketDecoder, AveragesChannels) {
  // 440 Hz on the left, 1000 Hz on the right.
  const auto samples = decode_container(read_bytes(opus_data("stereo.opus"))).samples;
  ASSERT_EQ(samples.size(), 4800U);
  const auto amplitude = [&](double frequency) {
    double re = 0;
    double im = 0;
    for (size_t i = 800; i < 4000; ++i) {
      re += samples[i] * std::cos(2 * M_PI * frequency * static_cast<double>(i) / 16000);
      im += samples[i] * std::sin(2 * M_PI * frequency * static_cast<double>(i) / 16000);
    }
    return 2 * std::hypot(re, im) / 3200;
  };
  EXPECT_NEAR(amplitude(440), 0.0625, 0.01);
  EXPECT_NEAR(amplitude(1000), 0.0625, 0.01);
}

TEST(OpusFraming, KeepsTheBoundariesOfMessages) {
  OpusFramer framer;
  EXPECT_THAT(framer.add(bytes_of({0x48}), false), IsEmpty());
  const Bytes first = framer.add(bytes_of({1, 2}), true);
  EXPECT_THAT(first, ElementsAre(std::byte{3}, std::byte{0}, std::byte{0x48}, std::byte{1}, std::byte{2}));
  EXPECT_THAT(framer.add({}, true), IsEmpty());
  const Bytes stream = joined({first, framer.add(bytes_of({0x48}), true)});
  OpusFrameReader reader;
  const Demuxed found = demux(reader, pieces(stream, 1));
  ASSERT_EQ(found.packets.size(), 2U);
  EXPECT_EQ(found.packets[0].bytes, bytes_of({0x48, 1, 2}));
  EXPECT_TRUE(found.packets[0].begins);
  EXPECT_FALSE(found.packets[1].begins);
}

TEST(OpusFraming, RefusesAMessageLongerThanAPacketAndKeepsNoneOfIt) {
  OpusFramer framer;
  Bytes stream = framer.add(bytes_of({0x48}), true);
  for (int i = 0; i < 100; ++i) EXPECT_THAT(framer.add(Bytes(10'000), false), IsEmpty());
  const Bytes frame = framer.add(Bytes(10'000), true);
  EXPECT_EQ(frame.size(), 2U);
  OpusFrameReader reader;
  EXPECT_THAT(demux(reader, {joined({stream, frame})}).error,
              AllOf(HasSubstr("packet 1"), HasSubstr("61440")));
  EXPECT_EQ(framer.add(bytes_of({0x48}), true), stream);
}

TEST(OpusFraming, NamesAPacketThatIsNone) {
  OpusFramer framer;
  const Bytes stream = joined({framer.add(bytes_of({0x48}), true), framer.add(bytes_of({0xff, 0x3f}), true)});
  const auto decoder = make_audio_decoder({.coding = AudioCoding::opus_packets});
  const Decoded result = decode(*decoder, {stream});
  EXPECT_THAT(result.error, HasSubstr("packet 1 is no Opus packet"));
  EXPECT_EQ(result.samples.size(), 320U);
}

TEST(OpusFraming, DecodesAStreamOfTheSmallestAndLongestPacketsInPieces) {
  OpusFramer framer;
  Bytes stream;
  for (int i = 0; i < 1000; ++i) stream = joined({stream, framer.add(bytes_of({0x4b, 6}), true)});
  const auto decoder = make_audio_decoder({.coding = AudioCoding::opus_packets});
  EXPECT_EQ(decode(*decoder, {stream}).samples.size(), 1000U * 1920);
}

}  // namespace
}  // namespace tutti::test
