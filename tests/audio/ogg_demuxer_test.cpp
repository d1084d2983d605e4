#include "audio/ogg_demuxer.hpp"

#include <gmock/gmock.h>
#include <ogg/ogg.h>
#include <sndfile.h>

#include <cstring>

#include "audio/audio_file.hpp"
#include "tests/audio/coded_audio.hpp"
#include "tests/audio/webm_writer.hpp"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int frame = 960;  // 20 ms at 48 kHz
// 20 ms of SILK, of one byte: nothing was coded.
const Bytes tiny_packet = bytes_of({0x48});

/// Pages of an Ogg stream, by libogg.
class OggWriter {
 public:
  explicit OggWriter(int serial) { ogg_stream_init(&stream_, serial); }
  OggWriter(const OggWriter&) = delete;
  OggWriter& operator=(const OggWriter&) = delete;
  ~OggWriter() { ogg_stream_clear(&stream_); }

  Bytes page(const std::vector<Bytes>& packets, int64_t granule, bool ends = false) {
    for (size_t i = 0; i < packets.size(); ++i) {
      Bytes copy = packets[i];
      ogg_packet packet{.packet = reinterpret_cast<unsigned char*>(copy.data()),
                        .bytes = static_cast<long>(copy.size()),
                        .b_o_s = count_ == 0 ? 1 : 0,
                        .e_o_s = ends && i + 1 == packets.size() ? 1 : 0,
                        .granulepos = granule,
                        .packetno = count_++};
      ogg_stream_packetin(&stream_, &packet);
    }
    Bytes bytes;
    ogg_page page;
    while (ogg_stream_flush(&stream_, &page) != 0) {
      const auto append = [&](const unsigned char* data, long size) {
        const auto part = std::as_bytes(std::span(data, static_cast<size_t>(size)));
        bytes.insert(bytes.end(), part.begin(), part.end());
      };
      append(page.header, page.header_len);
      append(page.body, page.body_len);
    }
    return bytes;
  }
  Bytes head(int pre_skip = 312, size_t comment_bytes = 20) {
    Bytes bytes = page({opus_head(1, pre_skip)}, 0);
    return joined({bytes, page({Bytes(comment_bytes)}, 0)});
  }

 private:
  ogg_stream_state stream_{};
  int64_t count_ = 0;
};

TEST(OggDemuxer, GivesExactlyTheSamplesThatWereEncoded) {
  const Demuxed found = demux<OggDemuxer>(read_bytes(opus_data("opusenc.opus")));
  EXPECT_THAT(found.error, IsEmpty());
  ASSERT_FALSE(found.packets.empty());
  EXPECT_EQ(found.packets.front().begins.value().pre_skip, 312);
  EXPECT_EQ(found.samples(), 3 * 89520);
  EXPECT_EQ(decode_container(read_bytes(opus_data("opusenc.opus"))).samples.size(), 89520U);
}

TEST(OggDemuxer, DecodesAsCloseToTheRecordingAsOpusComes) {
  auto recording = AudioFile::open(TUTTI_TEST_DATA "/speech/libri-06.flac");
  ASSERT_TRUE(recording);
  std::vector<float> samples;
  recording->read(1 << 20, samples);
  const Decoded decoded = decode_container(read_bytes(opus_data("opusenc.opus")));
  // A sample early or late it would be 7 dB.
  EXPECT_GT(signal_to_noise(samples, decoded.samples), 11);
}

TEST(OggDemuxer, DecodesWhatLibsndfileDecodes) {
  SF_INFO info{};
  SNDFILE* const file = sf_open(opus_data("opusenc.opus").c_str(), SFM_READ, &info);
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(info.samplerate, 16000);
  std::vector<float> expected(static_cast<size_t>(info.frames));
  EXPECT_EQ(sf_readf_float(file, expected.data(), info.frames), info.frames);
  sf_close(file);
  const auto samples = decode_container(read_bytes(opus_data("opusenc.opus"))).samples;
  ASSERT_EQ(samples.size(), expected.size());
  for (size_t i = 0; i < samples.size(); ++i) ASSERT_NEAR(samples[i], expected[i], 1e-6) << i;
}

TEST(OggDemuxer, EndsWhereTheLastGranulePositionSays) {
  OggWriter writer(1);
  const Bytes stream = joined({writer.head(), writer.page({tiny_packet, tiny_packet}, 2 * frame),
                               writer.page({tiny_packet, tiny_packet}, 2 * frame + 100, true)});
  const Demuxed found = demux<OggDemuxer>(stream);
  ASSERT_EQ(found.packets.size(), 4U);
  EXPECT_EQ(found.packets[2].discarded, frame - 100);
  EXPECT_EQ(found.packets[3].discarded, frame);
  EXPECT_EQ(found.samples(), 2 * frame + 100 - 312);
}

TEST(OggDemuxer, FillsThePlaceOfALostPage) {
  OggWriter writer(1);
  const std::vector<Bytes> packets(10, tiny_packet);
  Bytes stream = joined({writer.head(), writer.page(packets, 10 * frame)});
  writer.page(packets, 20 * frame);
  Bytes broken = writer.page(packets, 30 * frame);
  broken.back() ^= std::byte{1};
  stream = joined({stream, broken, writer.page(packets, 40 * frame)});
  const Demuxed found = demux<OggDemuxer>(stream);
  ASSERT_EQ(found.packets.size(), 20U);
  EXPECT_EQ(found.packets[10].lost, 20 * frame);
  EXPECT_EQ(found.samples(), 40 * frame - 312);
  EXPECT_EQ(decode_container(stream).samples.size(), (40U * frame - 312) / 3);
}

TEST(OggDemuxer, FillsNoMoreThanTenSeconds) {
  OggWriter writer(1);
  const Bytes stream =
      joined({writer.head(0), writer.page({tiny_packet}, frame), writer.page({tiny_packet}, int64_t{1} << 50),
              writer.page({tiny_packet}, (int64_t{1} << 50) + frame)});
  const Demuxed found = demux<OggDemuxer>(stream);
  ASSERT_EQ(found.packets.size(), 3U);
  EXPECT_EQ(found.packets[1].lost, OpusDemuxer::longest_fill);
  EXPECT_EQ(found.packets[2].lost, 0);
}

TEST(OggDemuxer, ReadsAStreamFromItsMiddleAndWithoutAClock) {
  for (const int64_t granule : {int64_t{1} << 40, int64_t{-1}, int64_t{1} << 62}) {
    OggWriter writer(1);
    const Bytes stream = joined({writer.head(0), writer.page({tiny_packet}, granule)});
    EXPECT_EQ(demux<OggDemuxer>(stream).samples(), frame) << granule;
  }
}

TEST(OggDemuxer, GoesOnWithAChainedStream) {
  const Bytes one = read_bytes(opus_data("opusenc.opus"));
  const Bytes two = read_bytes(opus_data("stereo.opus"));
  const Decoded chained = decode_container(joined({one, two, one}));
  const auto first = decode_container(one).samples;
  const auto second = decode_container(two).samples;
  EXPECT_THAT(chained.error, IsEmpty());
  ASSERT_EQ(chained.samples.size(), 2 * first.size() + second.size());
  EXPECT_TRUE(std::equal(first.begin(), first.end(), chained.samples.begin()));
  EXPECT_TRUE(std::equal(second.begin(), second.end(),
                         chained.samples.begin() + static_cast<ptrdiff_t>(first.size())));
  EXPECT_TRUE(std::equal(first.rbegin(), first.rend(), chained.samples.rbegin()));
}

TEST(OggDemuxer, ReadsTheOpusStreamAmongOthers) {
  OggWriter other(1);
  OggWriter opus(2);
  const Bytes skeleton = bytes_of({'f', 'i', 's', 'h', 'e', 'a', 'd', 0});
  const Bytes stream =
      joined({other.page({skeleton}, 0), opus.page({opus_head()}, 0), other.page({skeleton}, 0),
              opus.page({Bytes(20)}, 0), other.page({skeleton}, 5), opus.page({tiny_packet}, frame, true),
              other.page({skeleton}, 6)});
  const Demuxed found = demux<OggDemuxer>(stream);
  EXPECT_THAT(found.error, IsEmpty());
  EXPECT_EQ(found.samples(), frame);
}

TEST(OggDemuxer, SkipsCommentsOfAnyLength) {
  OggWriter writer(1);
  const Bytes stream = joined({writer.head(0, 3'000'000), writer.page({tiny_packet}, frame)});
  EXPECT_EQ(demux<OggDemuxer>(stream).samples(), frame);
}

TEST(OggDemuxer, TakesThePlaceOfAnEmptyPacketFromTheClock) {
  OggWriter writer(1);
  std::vector<Bytes> packets(6);
  packets.push_back(tiny_packet);
  const Bytes stream =
      joined({writer.head(0), writer.page({tiny_packet}, frame), writer.page(packets, 8 * frame)});
  EXPECT_EQ(demux<OggDemuxer>(stream).samples(), 8 * frame);
}

TEST(OggDemuxer, RefusesAPacketThatIsNone) {
  OggWriter writer(1);
  const Bytes stream = joined({writer.head(), writer.page({tiny_packet, bytes_of({0xff, 0x3f})}, 2 * frame)});
  EXPECT_THAT(demux<OggDemuxer>(stream).error, HasSubstr("packet 1 of the Ogg stream (before byte"));
}

TEST(OggDemuxer, RefusesAPacketWithoutAnEnd) {
  OggWriter writer(1);
  const Bytes stream = joined({writer.head(), writer.page({Bytes(1'000'000, tiny_packet[0])}, frame)});
  OggDemuxer demuxer;
  const Demuxed found = demux(demuxer, pieces(stream, 1000));
  EXPECT_THAT(found.error, AllOf(HasSubstr("packet 0"), HasSubstr("61440 bytes")));
}

TEST(OggDemuxer, GivesUpOnBytesThatAreNoPages) {
  for (const char* junk : {"OggS", "abcd"}) {
    OggWriter writer(1);
    Bytes stream = writer.head();
    while (stream.size() < 400'000) {
      for (const char c : std::string(junk)) stream.push_back(static_cast<std::byte>(c));
    }
    EXPECT_THAT(demux<OggDemuxer>(stream).error, HasSubstr("no page")) << junk;
  }
}

TEST(OggDemuxer, SaysThatAStreamHasNoBeginning) {
  OggWriter writer(1);
  writer.head();
  EXPECT_THAT(demux<OggDemuxer>(writer.page({tiny_packet}, frame)).error, HasSubstr("no first page"));
}

}  // namespace
}  // namespace tutti::test
