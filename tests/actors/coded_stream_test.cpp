#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/actors/stream_fixture.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

/// Streams whose bytes say nothing of how long they sound.
class CodedStreamTest : public ActorTest {
 protected:
  void SetUp() override { start({8}); }
  OwnerLog& log() { return *logs[0]; }

  static std::vector<std::byte> recording(const std::string& name) {
    std::ifstream file(std::filesystem::path(TUTTI_TEST_DATA) / "opus" / name, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }

  /// The engine hears all it has, again and again.
  void hear_everything() {
    system.run();
    while (log().unconsumed > 0) {
      consume(log(), stream(), std::min<int64_t>(log().unconsumed, 10240));
      system.run();
    }
  }

  static constexpr int64_t window = credit_ms * 16;
  // 120 ms of silence in two bytes.
  const std::vector<std::byte> longest_packet = {std::byte{0x4b}, std::byte{6}};
};

TEST_F(CodedStreamTest, HearsARecordingOfABrowserHoweverItIsSent) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto bytes = recording("mediarecorder.webm");
  Session session = open("encoding=webm_opus");
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = std::min(bytes.size() - at, std::uniform_int_distribution<size_t>(1, 3000)(random));
    session.port->on_audio(
        {bytes.begin() + static_cast<ptrdiff_t>(at), bytes.begin() + static_cast<ptrdiff_t>(at + size)},
        random() % 2 == 0);
    at += size;
    hear_everything();
  }
  session.port->on_text(R"({"type":"eof"})");
  system.run();
  EXPECT_EQ(log().samples.size(), 9U * 16000);
  EXPECT_EQ(log().finished, 1);
  EXPECT_EQ(session.sink->granted, credit_ms * 32 + static_cast<int64_t>(bytes.size()));
}

TEST_F(CodedStreamTest, DecodesOnlyWhatTheEngineHasRoomFor) {
  const auto bytes = recording("opusenc.opus");
  Session session = open("encoding=ogg_opus");
  session.port->on_audio(bytes);
  system.run();
  EXPECT_GE(log().most_unconsumed, window);
  EXPECT_LE(log().most_unconsumed, window + 1920);
  session.port->on_text(R"({"type":"eof"})");
  hear_everything();
  EXPECT_EQ(log().samples.size(), 89520U);
  EXPECT_LE(log().most_unconsumed, window + 1920);
  EXPECT_EQ(session.sink->granted, credit_ms * 32 + static_cast<int64_t>(bytes.size()));
}

TEST_F(CodedStreamTest, DoesNotUnfoldPacketsOfTwoBytes) {
  Session session = open("encoding=opus");
  // Minutes of audio, in a fraction of the credit.
  for (int i = 0; i < 2000; ++i) {
    session.port->on_audio(longest_packet);
    if (i % 100 == 0) system.run();
  }
  system.run();
  EXPECT_FALSE(session.sink->closed());
  EXPECT_LE(log().most_unconsumed, window + 1920);
  EXPECT_LE(log().samples.size(), static_cast<size_t>(window) + 1920);
  // The bytes that wait are not given back.
  EXPECT_LT(session.sink->granted, credit_ms * 32 + 100);
  hear_everything();
  EXPECT_EQ(log().samples.size(), 2000U * 1920);
  EXPECT_LE(log().most_unconsumed, window + 1920);
  EXPECT_EQ(session.sink->granted, credit_ms * 32 + 2000 * 2);
}

TEST_F(CodedStreamTest, EndsASessionThatSendsBeyondItsCredit) {
  Session session = open("encoding=opus");
  for (int i = 0; i < 200; ++i) session.port->on_audio(silence(1000));
  system.run();
  EXPECT_EQ(session.sink->count("\"overrun\""), 1);
}

TEST_F(CodedStreamTest, TakesCommandsBetweenPackets) {
  Session session = open("encoding=opus");
  session.port->on_audio(longest_packet);
  session.port->on_text(R"({"type":"finalize"})");
  session.port->on_audio({longest_packet[0]}, false);
  system.run();
  session.port->on_audio({longest_packet[1]}, true);
  system.run();
  EXPECT_THAT(log().finalized_at, testing::ElementsAre(1920));
}

TEST_F(CodedStreamTest, TellsWhatItCannotDecodeAndEnds) {
  Session session = open("encoding=auto");
  session.port->on_audio(recording("refused/tagged.mp3"));
  system.run();
  EXPECT_EQ(session.sink->count("\"bad_audio\""), 1);
  EXPECT_THAT(session.sink->messages.back(), HasSubstr("this is an MP3 stream; accepted are"));
  EXPECT_EQ(session.sink->close_reason, CloseReason::policy);
  system.run();
  EXPECT_EQ(log().released.size(), 1U);
}

TEST_F(CodedStreamTest, ConvertsTheRateThatAHeaderSays) {
  Session session = open("encoding=wav");
  std::vector<std::byte> wav;
  const auto add = [&wav](std::string_view text) {
    for (const char c : text) wav.push_back(static_cast<std::byte>(c));
  };
  using namespace std::string_view_literals;
  add("RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\xff\xff\xff\xff"sv);
  wav.resize(wav.size() + 16000);
  session.port->on_audio(wav);
  session.port->on_text(R"({"type":"eof"})");
  hear_everything();
  EXPECT_EQ(log().samples.size(), 16000U);
  EXPECT_EQ(log().finished, 1);
}

}  // namespace
}  // namespace tutti::test
