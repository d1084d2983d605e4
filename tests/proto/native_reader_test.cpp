#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "proto/native.hpp"
#include "proto/query.hpp"
#include "tests/config/random_bytes.hpp"

namespace tutti::proto {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class T>
std::string code_of(const Result<T>& result) {
  return result ? "accepted" : result.error().code;
}

template <class T>
std::string message_of(const Result<T>& result) {
  return result ? "accepted" : result.error().message;
}

TEST(StreamRequest, DefaultsTo16kHzMonoPcmWithPartialsAndWords) {
  const auto request = parse_stream_request("");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->format.encoding, Encoding::pcm_s16le);
  EXPECT_EQ(request->format.channels, 1);
  EXPECT_EQ(request->format.mix, ChannelMix::average);
  EXPECT_EQ(request->sample_rate, 16000);
  EXPECT_TRUE(request->interim);
  EXPECT_TRUE(request->words);
  EXPECT_EQ(request->output, OutputFormat::json);
}

TEST(StreamRequest, ReadsEveryParameter) {
  const auto request = parse_stream_request(
      "encoding=mulaw&sample_rate=8000&channels=2&channel=1&interim=false&words=0&format=text");
  ASSERT_TRUE(request) << message_of(request);
  EXPECT_EQ(request->format.encoding, Encoding::mulaw);
  EXPECT_EQ(request->format.channels, 2);
  EXPECT_EQ(request->format.mix, ChannelMix::pick);
  EXPECT_EQ(request->format.picked_channel, 1);
  EXPECT_EQ(request->sample_rate, 8000);
  EXPECT_FALSE(request->interim);
  EXPECT_FALSE(request->words);
  EXPECT_EQ(request->output, OutputFormat::text);
}

TEST(StreamRequest, LeavesEndpointsToTheServerUnlessTheyAreGiven) {
  const auto untold = parse_stream_request("");
  EXPECT_EQ(untold->endpoint_silence_ms, std::nullopt);
  EXPECT_EQ(untold->long_silence_ms, std::nullopt);
  EXPECT_EQ(untold->max_segment_ms, std::nullopt);
  EXPECT_FALSE(untold->vad_events);
  const auto told = parse_stream_request("endpointing=300&long_silence=0&max_segment=20000&vad_events=true");
  ASSERT_TRUE(told) << message_of(told);
  EXPECT_EQ(told->endpoint_silence_ms, 300);
  EXPECT_EQ(told->long_silence_ms, 0);
  EXPECT_EQ(told->max_segment_ms, 20000);
  EXPECT_TRUE(told->vad_events);
}

TEST(StreamRequest, WithoutEndpointingKeepsOnlyTheRulesAskedFor) {
  for (const char* query : {"endpointing=false&max_segment=9000", "max_segment=9000&endpointing=0"}) {
    const auto request = parse_stream_request(query);
    ASSERT_TRUE(request) << message_of(request);
    EXPECT_EQ(request->endpoint_silence_ms, 0);
    EXPECT_EQ(request->long_silence_ms, 0);
    EXPECT_EQ(request->max_segment_ms, 9000);
  }
}

TEST(StreamRequest, SaysWhichDurationsItAccepts) {
  for (const char* query : {"endpointing=", "endpointing=true", "endpointing=-1", "endpointing=600001",
                            "long_silence=false", "max_segment=1.5", "vad_events=9"}) {
    EXPECT_EQ(code_of(parse_stream_request(query)), "bad_parameter") << query;
  }
  EXPECT_EQ(message_of(parse_stream_request("endpointing=soon")),
            "endpointing is \"soon\"; accepted are false and milliseconds from 0 (never) to 600000");
}

TEST(StreamRequest, DecodesPercentEscapesInNamesAndValues) {
  const auto request = parse_stream_request("%65ncoding=pcm%5Ff32le&sample%5frate=%348000");
  ASSERT_TRUE(request) << message_of(request);
  EXPECT_EQ(request->format.encoding, Encoding::pcm_f32le);
  EXPECT_EQ(request->sample_rate, 48000);
}

TEST(StreamRequest, IgnoresUnknownParametersAndEmptyPairs) {
  EXPECT_TRUE(parse_stream_request("&&token=abc&token=def&x&=&interim=true&"));
}

TEST(StreamRequest, TellsCodedAudioFromBareSamples) {
  const auto coding = [](const std::string& name) {
    return parse_stream_request("encoding=" + name)->coding;
  };
  EXPECT_EQ(coding("mulaw"), AudioCoding::pcm);
  EXPECT_EQ(coding("opus"), AudioCoding::opus_packets);
  for (const char* name : {"ogg_opus", "webm_opus", "wav", "auto"})
    EXPECT_EQ(coding(name), AudioCoding::container);
  EXPECT_TRUE(parse_stream_request("encoding=webm_opus&channels=2&sample_rate=48000"));
}

TEST(StreamRequest, SaysWhatWasGivenAndWhatIsAccepted) {
  const auto request = parse_stream_request("encoding=mp3");
  EXPECT_EQ(code_of(request), "bad_encoding");
  EXPECT_THAT(message_of(request),
              AllOf(HasSubstr("\"mp3\""), HasSubstr("pcm_s16le, pcm_f32le, mulaw, alaw, opus, ogg_opus")));
  EXPECT_THAT(message_of(parse_stream_request("sample_rate=44.1")),
              AllOf(HasSubstr("\"44.1\""), HasSubstr("4000 to 384000")));
}

TEST(StreamRequest, CutsLongValuesInMessages) {
  EXPECT_LT(message_of(parse_stream_request("encoding=" + std::string(5000, 'x'))).size(), 200U);
}

struct Refusal {
  std::string_view query;
  std::string_view code;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.query; }

class RefusedStreamRequest : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedStreamRequest, HasItsCode) {
  EXPECT_EQ(code_of(parse_stream_request(GetParam().query)), GetParam().code);
}

INSTANTIATE_TEST_SUITE_P(
    Queries, RefusedStreamRequest,
    testing::Values(
        Refusal{"encoding=", "bad_encoding"}, Refusal{"encoding", "bad_encoding"},
        Refusal{"encoding=PCM%00", "bad_encoding"}, Refusal{"sample_rate=0", "bad_sample_rate"},
        Refusal{"sample_rate=-8000", "bad_sample_rate"}, Refusal{"sample_rate=+8000", "bad_sample_rate"},
        Refusal{"sample_rate=8000hz", "bad_sample_rate"},
        Refusal{"sample_rate=99999999999999999999", "bad_sample_rate"},
        Refusal{"sample_rate=3999", "bad_sample_rate"}, Refusal{"channels=0", "bad_channels"},
        Refusal{"channels=65", "bad_channels"}, Refusal{"channels=two", "bad_channels"},
        Refusal{"channel=1", "bad_channels"}, Refusal{"encoding=opus&channels=2&channel=1", "bad_channels"},
        Refusal{"channels=2&channel=2", "bad_channels"}, Refusal{"channel=2&channels=2", "bad_channels"},
        Refusal{"channel=-1", "bad_channels"}, Refusal{"interim=maybe", "bad_parameter"},
        Refusal{"words=", "bad_parameter"}, Refusal{"format=xml", "bad_parameter"},
        Refusal{"words=1&words=1", "bad_parameter"}, Refusal{"x=%", "bad_parameter"},
        Refusal{"x=%2", "bad_parameter"}, Refusal{"%zz=1", "bad_parameter"}));

TEST(StreamRequest, SurvivesAnyQuery) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  constexpr std::string_view pieces[] = {"encoding", "sample_rate", "channels", "channel", "=",    "&",
                                         "%",        "%20",         "+",        "-1",      "0",    "2",
                                         "16000",    "alaw",        "true",     "format",  "text", "\xFF"};
  constexpr std::array codes = {"accepted", "bad_encoding", "bad_sample_rate", "bad_channels",
                                "bad_parameter"};
  for (int i = 0; i < 5000; ++i) {
    const std::string query = i % 2 == 0 ? random_pieces(random, pieces, 12) : random_bytes(random, 60);
    const auto request = parse_stream_request(query);
    ASSERT_THAT(codes, testing::Contains(code_of(request))) << query;
    if (!request) continue;
    ASSERT_LT(request->format.picked_channel, request->format.channels) << query;
  }
}

TEST(Query, TurnsPlusIntoSpaceAndKeepsOrder) {
  const auto parameters = parse_query("b=x+y%2B&a&b=2=3");
  ASSERT_TRUE(parameters);
  EXPECT_THAT(*parameters, testing::ElementsAre(testing::Pair("b", "x y+"), testing::Pair("a", ""),
                                                testing::Pair("b", "2=3")));
}

TEST(ClientMessage, ReadsTheThreeTypes) {
  EXPECT_TRUE(std::holds_alternative<Finalize>(parse_client_message(R"({"type":"finalize"})").value()));
  EXPECT_TRUE(std::holds_alternative<Eof>(parse_client_message(R"( {"type" : "eof"} )").value()));
  EXPECT_TRUE(std::holds_alternative<KeepAlive>(
      parse_client_message(R"({"x":[1,{"type":"eof"}],"\u0074ype":"keep\u0061live"})").value()));
}

struct RefusedMessage {
  std::string text;
  std::string_view code;
};

void PrintTo(const RefusedMessage& message, std::ostream* out) {
  *out << testing::PrintToString(message.text.substr(0, 60));
}

class RefusedClientMessage : public testing::TestWithParam<RefusedMessage> {};

TEST_P(RefusedClientMessage, HasItsCode) {
  EXPECT_EQ(code_of(parse_client_message(GetParam().text)), GetParam().code) << GetParam().text.substr(0, 80);
}

INSTANTIATE_TEST_SUITE_P(
    Messages, RefusedClientMessage,
    testing::Values(
        RefusedMessage{"", "bad_json"}, RefusedMessage{" ", "bad_json"}, RefusedMessage{"eof", "bad_json"},
        RefusedMessage{R"({"type":"eof")", "bad_json"}, RefusedMessage{R"({"type":"eof"}})", "bad_json"},
        RefusedMessage{R"({"type":"eof"}{"type":"eof"})", "bad_json"},
        RefusedMessage{R"({type:"eof"})", "bad_json"}, RefusedMessage{R"(["type","eof"])", "bad_json"},
        RefusedMessage{R"("eof")", "bad_json"}, RefusedMessage{"null", "bad_json"},
        RefusedMessage{"{\"type\":\"e\xFFof\"}", "bad_json"},
        RefusedMessage{std::string("{\"type\":\"eof\0\"}", 15), "bad_json"},
        RefusedMessage{"{\"type\":\"eof\",\"x\":" + std::string(100, '[') + std::string(100, ']') + "}",
                       "bad_json"},
        RefusedMessage{"{}", "bad_message"}, RefusedMessage{R"({"Type":"eof"})", "bad_message"},
        RefusedMessage{R"({"type":1})", "bad_message"}, RefusedMessage{R"({"type":null})", "bad_message"},
        RefusedMessage{R"({"type":["eof"]})", "bad_message"},
        RefusedMessage{R"({"type":"eof","type":"eof"})", "bad_message"},
        RefusedMessage{R"({"type":"eof","\u0074ype":"finalize"})", "bad_message"},
        RefusedMessage{"{\"type\":\"eof\",\"x\":\"" + std::string(70000, 'x') + "\"}", "bad_message"},
        RefusedMessage{R"({"type":"EOF"})", "unknown_type"}, RefusedMessage{R"({"type":""})", "unknown_type"},
        RefusedMessage{R"({"type":"eof "})", "unknown_type"}));

TEST(ClientMessage, NamesTheTypesItAccepts) {
  EXPECT_THAT(message_of(parse_client_message(R"({"type":"stop"})")),
              AllOf(HasSubstr("\"stop\""), HasSubstr("finalize, eof and keepalive")));
}

TEST(ClientMessage, SurvivesAnyText) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  constexpr std::string_view pieces[] = {"{",
                                         "}",
                                         "[",
                                         "]",
                                         "\"",
                                         ":",
                                         ",",
                                         "\"type\"",
                                         "\"eof\"",
                                         "\"finalize\"",
                                         "{\"type\":\"eof\"}",
                                         "\\u0000",
                                         "\\",
                                         "1e999",
                                         "null",
                                         " ",
                                         "\xC3"};
  constexpr std::array codes = {"accepted", "bad_json", "bad_message", "unknown_type"};
  for (int i = 0; i < 5000; ++i) {
    const std::string text = i % 2 == 0 ? random_pieces(random, pieces, 12) : random_bytes(random, 60);
    ASSERT_THAT(codes, testing::Contains(code_of(parse_client_message(text)))) << text;
  }
}

TEST(ClientMessage, RefusesEveryPrefixOfAMessage) {
  const std::string_view whole = R"({"type":"keepalive","x":[1,2,{"y":"z"}]})";
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_EQ(code_of(parse_client_message(whole.substr(0, length))), "bad_json") << whole.substr(0, length);
  }
  EXPECT_EQ(code_of(parse_client_message(whole)), "accepted");
}

}  // namespace
}  // namespace tutti::proto
