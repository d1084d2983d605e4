#include "audio/webm_demuxer.hpp"

#include <gmock/gmock.h>

#include "tests/audio/coded_audio.hpp"
#include "tests/audio/webm_writer.hpp"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int frame = 960;  // 20 ms at 48 kHz
const Bytes tiny_packet = bytes_of({0x48});

TEST(WebmDemuxer, FindsInARecordingOfABrowserWhatItsCopyInOggHolds) {
  const Demuxed webm = demux<WebmDemuxer>(read_bytes(opus_data("mediarecorder.webm")));
  const Demuxed ogg = demux<OggDemuxer>(read_bytes(opus_data("mediarecorder.ogg")));
  EXPECT_THAT(webm.error, IsEmpty());
  ASSERT_EQ(webm.packets.size(), ogg.packets.size());
  for (size_t i = 0; i < webm.packets.size(); ++i) {
    ASSERT_EQ(webm.packets[i].bytes, ogg.packets[i].bytes) << i;
    ASSERT_EQ(webm.packets[i].lost, 0) << i;
  }
  EXPECT_EQ(webm.samples(), 150 * 3 * frame);
}

TEST(WebmDemuxer, GivesExactlyTheSamplesThatWereEncoded) {
  const Bytes webm = read_bytes(opus_data("ffmpeg.webm"));
  EXPECT_EQ(demux<WebmDemuxer>(webm).samples(), 3 * 89520);
  EXPECT_EQ(decode_container(webm).samples, decode_container(read_bytes(opus_data("opusenc.opus"))).samples);
}

TEST(WebmDemuxer, FillsWhatTheTimesOfBlocksLeaveOut) {
  const Bytes stream =
      joined({webm_head(), cluster_head(5000), simple_block(tiny_packet, 0), simple_block(tiny_packet, 20),
              simple_block(tiny_packet, 240), cluster_head(5300), simple_block(tiny_packet, -40),
              cluster_head(6000), simple_block(tiny_packet, 0)});
  const Demuxed found = demux<WebmDemuxer>(stream);
  EXPECT_THAT(found.error, IsEmpty());
  ASSERT_EQ(found.packets.size(), 5U);
  EXPECT_EQ(found.packets[2].lost, 200 * 48);
  EXPECT_EQ(found.packets[3].lost, 0);
  EXPECT_EQ(found.packets[4].lost, 720 * 48);
  EXPECT_EQ(found.samples(), 1020 * 48);
  EXPECT_EQ(decode_container(stream).samples.size(), 1020U * 16);
}

TEST(WebmDemuxer, DoesNotTakeRoundedTimesForGaps) {
  Bytes stream = joined({webm_head(), cluster_head(0)});
  for (int i = 0; i < 1000; ++i) {
    stream = joined({stream, simple_block(tiny_packet, static_cast<int16_t>(i * 20 + i % 7 * 9))});
  }
  EXPECT_EQ(demux<WebmDemuxer>(stream).samples(), 1000 * frame);
}

TEST(WebmDemuxer, FillsNoMoreThanTenSecondsAndGoesOnAfterAStepBack) {
  const Bytes stream = joined({webm_head(), cluster_head(0), simple_block(tiny_packet, 0),
                               cluster_head(uint64_t{1} << 40), simple_block(tiny_packet, 0), cluster_head(7),
                               simple_block(tiny_packet, 0), simple_block(tiny_packet, 20)});
  const Demuxed found = demux<WebmDemuxer>(stream);
  ASSERT_EQ(found.packets.size(), 4U);
  EXPECT_EQ(found.packets[1].lost, OpusDemuxer::longest_fill);
  EXPECT_EQ(found.packets[2].lost, 0);
  EXPECT_EQ(found.packets[3].lost, 0);
}

TEST(WebmDemuxer, GoesOnWithAnotherFile) {
  const Bytes one = read_bytes(opus_data("mediarecorder.webm"));
  const auto once = decode_container(one).samples;
  const Decoded twice = decode_container(joined({one, one}));
  EXPECT_THAT(twice.error, IsEmpty());
  ASSERT_EQ(twice.samples.size(), 2 * once.size());
  EXPECT_TRUE(
      std::equal(once.begin(), once.end(), twice.samples.begin() + static_cast<ptrdiff_t>(once.size())));
}

TEST(WebmDemuxer, ReadsTheOpusTrackAmongOthers) {
  const Bytes video = element(0xae, joined({number_element(0xd7, 1), text_element(0x86, "V_VP8")}));
  const Bytes stream = joined({webm_head(joined({video, opus_track(2), opus_track(3)})), cluster_head(0),
                               simple_block(Bytes(100'000), 0, 1), simple_block(tiny_packet, 0, 2),
                               simple_block(tiny_packet, 0, 3)});
  EXPECT_EQ(demux<WebmDemuxer>(stream).samples(), frame);
}

TEST(WebmDemuxer, ReadsLacedBlocks) {
  // Xiph lacing of three packets, of 1, 1 and 1 bytes.
  const Bytes laced = joined({bytes_of({2, 1, 1}), tiny_packet, tiny_packet, tiny_packet});
  const Bytes stream = joined({webm_head(), cluster_head(0), element(0xa3, block_body(laced, 0, 1, 0x02)),
                               element(0xa0, element(0xa1, block_body(laced, 60, 1, 0x02)))});
  const Demuxed found = demux<WebmDemuxer>(stream);
  EXPECT_THAT(found.error, IsEmpty());
  EXPECT_EQ(found.packets.size(), 6U);
  EXPECT_EQ(found.samples(), 6 * frame);
}

TEST(WebmDemuxer, LeavesOutWhatABlockGroupDiscards) {
  const Bytes group =
      element(0xa0, joined({element(0xa1, block_body(tiny_packet, 20)), number_element(0x75a2, 5'000'000)}));
  const Demuxed found =
      demux<WebmDemuxer>(joined({webm_head(), cluster_head(0), simple_block(tiny_packet, 0), group}));
  ASSERT_EQ(found.packets.size(), 2U);
  EXPECT_EQ(found.packets[1].discarded, 240);
}

TEST(WebmDemuxer, GivesAPacketBeforeABlockGroupThatIsBroken) {
  const Bytes broken(3);  // no element has such a name
  const Demuxed found = demux<WebmDemuxer>(
      joined({webm_head(), cluster_head(0), simple_block(tiny_packet, 0), element(0xa0, broken)}));
  EXPECT_THAT(found.error, HasSubstr("an element's name is none"));
  EXPECT_EQ(found.packets.size(), 1U);
}

TEST(WebmDemuxer, DiscardsNothingOfAPacketBeforeAGroupThatHasNone) {
  const Bytes group = element(0xa0, number_element(0x75a2, 5'000'000));
  const Demuxed found =
      demux<WebmDemuxer>(joined({webm_head(), cluster_head(0), simple_block(tiny_packet, 0), group}));
  ASSERT_EQ(found.packets.size(), 1U);
  EXPECT_EQ(found.packets[0].discarded, 0);
}

TEST(WebmDemuxer, SkipsWhatItHasNoUseFor) {
  const Bytes junk = joined({element(0xec, Bytes(70'000)), element(0x1254c367, Bytes(70'000))});
  const Bytes tracks =
      element(0x1654ae6b, joined({element(0xbf, Bytes(4)), element(0x4fff, Bytes(300)), opus_track()}));
  const Bytes stream =
      joined({ebml_header("matroska"), segment_head(), junk, tracks, junk, cluster_head(0),
              simple_block(tiny_packet, 0), element(0xec, Bytes(9)), simple_block(tiny_packet, 20)});
  const Demuxed found = demux<WebmDemuxer>(stream);
  EXPECT_THAT(found.error, IsEmpty());
  EXPECT_EQ(found.packets.size(), 2U);
}

TEST(WebmDemuxer, WaitsForTheEndOfAnEndlessVoidInNoMemory) {
  const Bytes stream =
      joined({webm_head(), cluster_head(0), element_head(0xec, (uint64_t{1} << 56) - 2), Bytes(1'000'000)});
  const Demuxed found = demux<WebmDemuxer>(stream);
  EXPECT_THAT(found.error, IsEmpty());
  EXPECT_THAT(found.packets, IsEmpty());
}

TEST(WebmDemuxer, RefusesWhatWouldNotFit) {
  const auto error_of = [](std::initializer_list<Bytes> parts) {
    return demux<WebmDemuxer>(joined(parts)).error;
  };
  const Bytes head = joined({webm_head(), cluster_head(0)});
  EXPECT_THAT(error_of({head, element_head(0xa3, 1 << 20), block_body(Bytes(100), 0)}),
              AllOf(HasSubstr("packet 0"), HasSubstr("at byte"), HasSubstr("61440")));
  EXPECT_THAT(
      error_of({ebml_header(), segment_head(), element_head(0x1654ae6b, uint64_t{1} << 41),
                element_head(0xae, uint64_t{1} << 40), element_head(0x86, uint64_t{1} << 36), Bytes(100)}),
      AllOf(HasSubstr("68719476736 bytes"), HasSubstr("4096")));
  EXPECT_THAT(error_of({ebml_header(), segment_head(), element_head(0x1654ae6b, unknown_size), Bytes(100)}),
              HasSubstr("has no size"));
  EXPECT_THAT(error_of({head, element_head(0xa3, unknown_size), Bytes(100)}), HasSubstr("has no size"));
}

TEST(WebmDemuxer, RefusesANameThatGoesOnBehindWhatItIsInHoweverItIsCut) {
  const Bytes begun = joined({text_element(0x4282, "webm"), bytes_of({0x42})});
  const Bytes stream = joined({element(0x1a45dfa3, begun), Bytes(100, std::byte{0x86})});
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    WebmDemuxer demuxer;
    std::vector<std::span<const std::byte>> pieces;
    for (size_t at = 0; at < stream.size(); at += piece) {
      pieces.push_back(std::span(stream).subspan(at, std::min(piece, stream.size() - at)));
    }
    EXPECT_THAT(demux(demuxer, pieces).error, HasSubstr("an element ends after that which it is in"))
        << piece;
  }
}

TEST(WebmDemuxer, RefusesAClusterWithoutAnEnd) {
  Bytes stream = joined({webm_head(), cluster_head(0)});
  const Bytes block = simple_block(tiny_packet, 0);
  for (int i = 0; i < 10'000; ++i) stream.insert(stream.end(), block.begin(), block.end());
  EXPECT_THAT(demux<WebmDemuxer>(stream).error, HasSubstr("more than 8192 blocks"));
}

TEST(WebmDemuxer, RefusesWhatItCannotRead) {
  const auto error_of = [](std::initializer_list<Bytes> parts) {
    return demux<WebmDemuxer>(joined(parts)).error;
  };
  EXPECT_THAT(error_of({ebml_header("docx"), segment_head(), Bytes(100)}),
              HasSubstr("neither WebM nor Matroska"));
  EXPECT_THAT(error_of({webm_head(opus_track(1, Bytes(19))), cluster_head(0), simple_block(tiny_packet, 0)}),
              HasSubstr("OpusHead"));
  EXPECT_THAT(
      error_of({webm_head(opus_track(1, opus_head(3, 0, 1))), cluster_head(0), simple_block(tiny_packet, 0)}),
      HasSubstr("family 1"));
  EXPECT_THAT(error_of({webm_head(), cluster_head(0), simple_block(bytes_of({0xff, 0x3f}), 0)}),
              HasSubstr("packet 0 of the WebM stream"));
  EXPECT_THAT(error_of({webm_head({}), cluster_head(0), simple_block(tiny_packet, 0)}),
              HasSubstr("no track"));
  EXPECT_THAT(error_of({webm_head(element(0xae, element(0x6d80, Bytes(4)))), cluster_head(0)}),
              HasSubstr("compressed or encrypted"));
  EXPECT_THAT(error_of({webm_head(), cluster_head(uint64_t{1} << 60), simple_block(tiny_packet, 0)}),
              HasSubstr("100 years"));
  EXPECT_THAT(error_of({webm_head(), Bytes(4)}), HasSubstr("before byte"));
}

}  // namespace
}  // namespace tutti::test
