#include "proto/deepgram.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/proto/conversation.hpp"

namespace tutti::proto {
namespace {

TEST(Deepgram, LeavesEndsToTheClientThatWantsNone) {
  const auto request = parse_deepgram_request("encoding=linear16&sample_rate=16000&endpointing=false");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->stream.endpoint_silence_ms, 0);
  // Deepgram sends finals from time to time even then.
  EXPECT_EQ(request->stream.max_segment_ms, std::nullopt);
}

TEST(Deepgram, AcceptsWhatItsClientsAskForAndIgnoresTheRest) {
  for (const char* query :
       {"endpointing=true", "endpointing=10", "utterance_end_ms=1000", "punctuate=true&diarize=true",
        "keyterm=a&keyterm=b&keywords=c:2", "language=en-US&tier=nova&version=latest&tag=x",
        "interim_results=1&vad_events=0", "channels=2"}) {
    EXPECT_TRUE(parse_deepgram_request(std::string("encoding=linear16&sample_rate=8000&") + query)) << query;
  }
}

TEST(Deepgram, LeavesToContainersWhatTheyHold) {
  for (const char* query : {"", "encoding=ogg-opus&sample_rate=48000", "channels=2&sample_rate=8000"}) {
    const auto request = parse_deepgram_request(query);
    ASSERT_TRUE(request) << query;
    EXPECT_EQ(request->stream.coding, AudioCoding::container) << query;
    EXPECT_EQ(request->stream.sample_rate, 16000) << query;
    EXPECT_EQ(request->stream.format.channels, 1) << query;
  }
  EXPECT_EQ(parse_deepgram_request("encoding=opus")->stream.coding, AudioCoding::opus_packets);
  EXPECT_EQ(parse_deepgram_request("channels=2&multichannel=true").error().code, "bad_channels");
}

TEST(Deepgram, NamesTheRequestInEveryResponse) {
  const Acceptance accepted = accept_deepgram(test_handshake("/v1/listen?encoding=mulaw&sample_rate=8000"));
  EXPECT_THAT(std::get<Accepted>(accepted).headers,
              testing::Contains(testing::Pair("dg-request-id", test_session)));
  const Acceptance refused = accept_deepgram(test_handshake("/v1/listen?encoding=a%0d%0ab&sample_rate=8000"));
  EXPECT_THAT(
      std::get<Refused>(refused).headers,
      testing::UnorderedElementsAre(
          testing::Pair("dg-request-id", test_session),
          testing::Pair("dg-error",
                        "encoding is \"a  b\"; accepted are linear16, mulaw, alaw, opus and ogg-opus")));
}

}  // namespace
}  // namespace tutti::proto
