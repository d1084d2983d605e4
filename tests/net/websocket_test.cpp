#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/net/fake_gateway.hpp"
#include "tests/net/test_client.hpp"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

/// A server and one session on it.
struct TestSession : TestServer {
  explicit TestSession(const NetOptions& options = {}, int64_t initial_credit = 1 << 20,
                       std::string_view target = "/v1/stream", int receive_buffer = 0)
      : TestServer(options), client(server.address(), receive_buffer) {
    gateway.initial_credit = initial_credit;
    status_of_upgrade = client.upgrade(target).status;
    probe = gateway.next();
  }

  /// Expects the error event and the close frame of a session that the server ends.
  void expect_refusal(std::string_view code, int close_code) {
    const auto event = client.read_message();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->opcode, TestClient::text);
    EXPECT_THAT(event->payload, HasSubstr("\"code\":\"" + std::string(code) + "\""));
    const auto close = client.read_message();
    ASSERT_TRUE(close);
    EXPECT_EQ(close->close_code(), close_code);
    EXPECT_EQ(probe->closed, 1);
  }

  TestClient client;
  int status_of_upgrade = 0;
  std::shared_ptr<StreamProbe> probe;
};

std::string random_audio(size_t bytes) {
  std::mt19937 random(static_cast<unsigned>(bytes));
  std::string audio(bytes, '\0');
  for (char& byte : audio) byte = static_cast<char>(random());
  return audio;
}

TEST(WebSocket, HandsTheQueryToTheDialect) {
  TestSession test({}, 0, "/v1/stream?encoding=mulaw&x=%20");
  EXPECT_EQ(test.status_of_upgrade, 101);
  EXPECT_EQ(test.probe->request.dialect_name, "native");
  EXPECT_EQ(test.probe->asked.format.encoding, Encoding::mulaw);
}

TEST(WebSocket, ForwardsAudioUnchangedHoweverItIsSplit) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  TestSession test;
  const std::string audio = random_audio(200'000);
  std::string wire;
  bool continued = false;
  for (size_t at = 0; at < audio.size();) {
    const size_t size =
        std::min<size_t>(random() % 3 == 0 ? random() % 70'000 : random() % 7, audio.size() - at);
    const bool fin = random() % 2 == 0;
    wire += TestClient::frame(continued ? TestClient::continuation : TestClient::binary,
                              std::string_view(audio).substr(at, size), fin);
    if (random() % 4 == 0) wire += TestClient::frame(TestClient::pong, "unasked");
    continued = !fin;
    at += size;
  }
  wire += TestClient::frame(continued ? TestClient::continuation : TestClient::binary, "", true);
  for (size_t at = 0; at < wire.size();) {
    const size_t size = std::min<size_t>(random() % 5000 + 1, wire.size() - at);
    test.client.send(std::string_view(wire).substr(at, size));
    at += size;
  }
  EXPECT_TRUE(eventually([&] { return test.probe->audio_bytes == 200'000; }));
  EXPECT_EQ(test.probe->audio_hash, hash_bytes(audio.data(), audio.size()));
  EXPECT_LE(test.probe->largest_slice, 32 * 1024);
}

TEST(WebSocket, ForwardsTextWhole) {
  TestSession test;
  test.client.send_frame(TestClient::text, "{\"type\":", false);
  test.client.send_frame(TestClient::ping, "between");
  test.client.send_frame(TestClient::continuation, "", false);
  test.client.send_frame(TestClient::continuation, "\"eof\"}");
  const auto pong = test.client.read_message();
  EXPECT_EQ(pong->opcode, TestClient::pong);
  EXPECT_EQ(pong->payload, "between");
  EXPECT_EQ(test.client.read_message()->payload, R"(echo {"type":"eof"})");
}

TEST(WebSocket, ReadsEveryMessageOfAFlood) {
  TestSession test;
  std::string wire;
  for (int i = 0; i < 30; ++i) wire += TestClient::frame(TestClient::text, std::to_string(i));
  test.client.send(wire);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(test.client.read_message()->payload, "echo " + std::to_string(i));
}

TEST(WebSocket, StopsReadingAtCreditZeroAndGoesOnWhenGranted) {
  TestSession test({}, 100'000);
  const std::string audio = random_audio(48U << 20U);
  std::string wire;
  for (size_t at = 0; at < audio.size(); at += 16384) {
    wire += TestClient::frame(TestClient::binary, std::string_view(audio).substr(at, 16384));
  }
  const size_t sent = test.client.send_until_blocked(wire);
  EXPECT_LT(sent, wire.size());
  EXPECT_EQ(test.probe->audio_bytes, 100'000);
  EXPECT_EQ(test.server.stats().read_stalls, 1);

  test.probe->sink->grant(static_cast<int64_t>(audio.size()) - 100'000);
  test.client.send(std::string_view(wire).substr(sent));
  EXPECT_TRUE(eventually([&] { return test.probe->audio_bytes == static_cast<int64_t>(audio.size()); }));
  EXPECT_EQ(test.probe->audio_hash, hash_bytes(audio.data(), audio.size()));
}

TEST(WebSocket, PingsWhileItDoesNotReadAndIsNotIdleThen) {
  NetOptions options;
  options.ping_interval = milliseconds(20);
  options.idle_timeout = milliseconds(60);
  TestSession test(options, 0);
  for (int pings = 0; pings < 10; ++pings) EXPECT_EQ(test.client.read_frame()->opcode, TestClient::ping);
  EXPECT_EQ(test.probe->closed, 0);
}

TEST(WebSocket, NoticesAPeerThatLeftWhileItDoesNotRead) {
  NetOptions options;
  options.ping_interval = milliseconds(20);
  TestSession test(options, 0);
  test.client.close();
  EXPECT_TRUE(eventually([&] { return test.probe->closed == 1; }));
  EXPECT_EQ(test.server.stats().vanished_peers, 1);
}

TEST(WebSocket, TellsTheStreamOnceThatItsPeerLeft) {
  for (const bool orderly : {true, false}) {
    TestSession test;
    test.client.send_frame(TestClient::binary, "12345");
    EXPECT_TRUE(eventually([&] { return test.probe->audio_bytes == 5; }));
    if (orderly) {
      test.client.send_frame(TestClient::close_frame, "\x03\xE8");
      EXPECT_EQ(test.client.read_message()->close_code(), 1000);
      EXPECT_TRUE(test.client.at_end());
    } else {
      test.client.reset();
    }
    EXPECT_TRUE(eventually([&] { return test.probe->closed == 1; }));
    test.client.close();
    EXPECT_TRUE(eventually([&] { return test.server.stats().open_connections == 0; }));
    EXPECT_EQ(test.probe->closed, 1);
    EXPECT_EQ(test.server.stats().vanished_peers, orderly ? 0 : 1);
  }
}

TEST(WebSocket, EndsAnIdleSession) {
  NetOptions options;
  options.idle_timeout = milliseconds(100);
  options.ping_interval = milliseconds(30);
  TestSession test(options);
  test.expect_refusal("idle_timeout", 1008);
  EXPECT_EQ(test.server.stats().idle_sessions, 1);
}

TEST(WebSocket, KeepsASessionThatSendsAnything) {
  NetOptions options;
  options.idle_timeout = milliseconds(2000);
  options.ping_interval = milliseconds(100);
  TestSession test(options);
  for (int i = 0; i < 15; ++i) {
    test.client.send_frame(TestClient::text, "keepalive");
    ASSERT_EQ(test.client.read_message()->payload, "echo keepalive");
    std::this_thread::sleep_for(milliseconds(200));
  }
  EXPECT_EQ(test.probe->closed, 0);
}

TEST(WebSocket, KeepsASessionThatHasEndedItsAudioUntilItHasItsResults) {
  NetOptions options;
  options.idle_timeout = milliseconds(1000);
  options.ping_interval = milliseconds(100);
  TestSession test(options);
  test.probe->sink->await_results(true);
  std::this_thread::sleep_for(milliseconds(1500));
  EXPECT_EQ(test.server.stats().idle_sessions, 0);
  test.probe->sink->await_results(false);
  EXPECT_TRUE(eventually([&] { return test.server.stats().idle_sessions == 1; }));
}

TEST(WebSocket, KeepsASessionThatWaitsForItsResults) {
  NetOptions options;
  options.idle_timeout = milliseconds(2000);
  options.ping_interval = milliseconds(100);
  TestSession test(options);
  for (int i = 0; i < 15; ++i) {
    i % 2 == 0 ? test.probe->sink->send("partial", true) : test.probe->sink->grant(1);
    std::this_thread::sleep_for(milliseconds(200));
  }
  EXPECT_EQ(test.probe->closed, 0);
}

TEST(WebSocket, RefusesAMessageThatIsTooLong) {
  NetOptions options;
  options.max_message_bytes = 1000;
  for (const auto opcode : {TestClient::binary, TestClient::text}) {
    TestSession whole(options);
    whole.client.send_frame(opcode, std::string(1000, 'x'));
    whole.client.send_frame(opcode, std::string(1001, 'x'));
    if (opcode == TestClient::text) {
      EXPECT_EQ(whole.client.read_message()->payload.size(), 1005U);
    }
    whole.expect_refusal("message_too_long", 1009);

    TestSession fragmented(options);
    fragmented.client.send_frame(opcode, std::string(600, 'x'), false);
    fragmented.client.send_frame(TestClient::continuation, std::string(600, 'x'), false);
    fragmented.expect_refusal("message_too_long", 1009);
  }
}

TEST(WebSocket, SpeaksTheFormatThatWasAskedFor) {
  NetOptions options;
  options.max_message_bytes = 10;
  TestSession test(options, 1000, "/v1/stream?format=text");
  test.client.send_frame(TestClient::binary, "12345678901");
  EXPECT_THAT(test.client.read_message()->payload, testing::StartsWith("! a message may have 10 bytes"));
}

TEST(WebSocket, ClosesOnABreachOfTheProtocol) {
  struct Breach {
    std::string bytes;
    int close_code;
  };
  const Breach breaches[] = {
      {std::string("\x82\x03"
                   "abc",
                   5),
       1002},                                                              // not masked
      {std::string("\xF2\x80\0\0\0\0", 6), 1002},                          // reserved bits
      {std::string("\x83\x80\0\0\0\0", 6), 1002},                          // reserved opcode
      {TestClient::frame(TestClient::continuation, "x"), 1002},            // continues nothing
      {TestClient::frame(TestClient::ping, std::string(126, 'x')), 1002},  // a long control frame
      {TestClient::frame(TestClient::text, "\xFF"), 1007},                 // not UTF-8
  };
  for (const Breach& breach : breaches) {
    TestSession test;
    test.client.send(breach.bytes);
    const auto close = test.client.read_message();
    ASSERT_TRUE(close);
    EXPECT_EQ(close->close_code(), breach.close_code);
    EXPECT_TRUE(eventually([&] { return test.probe->closed == 1; }));
  }
}

TEST(WebSocket, SurvivesGarbage) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  TestServer test;
  for (int i = 0; i < 60; ++i) {
    TestClient client(test.server.address());
    ASSERT_EQ(client.upgrade("/v1/stream").status, 101);
    std::string bytes = TestClient::frame(TestClient::binary, "audio");
    for (size_t n = random() % 400; n > 0; --n) bytes += static_cast<char>(random());
    client.send(bytes);
    if (i % 2 == 0) client.reset();
  }
  for (int i = 0; i < 60; ++i) {
    const auto probe = test.gateway.next();
    EXPECT_TRUE(eventually([&] { return probe->closed == 1; }));
  }
  TestClient client(test.server.address());
  EXPECT_EQ(client.upgrade("/v1/stream").status, 101);
}

TEST(WebSocket, SendsWhatIsQueuedThenCloses) {
  TestSession test({}, 0);
  for (int i = 0; i < 20; ++i) test.probe->sink->send(std::to_string(i), false);
  test.probe->sink->close(CloseReason::try_again_later, std::string(300, 'x') + "\xFF");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(test.client.read_message()->payload, std::to_string(i));
  const auto close = test.client.read_message();
  EXPECT_EQ(close->close_code(), 1013);
  EXPECT_EQ(close->payload.substr(2), std::string(123, 'x'));
  test.client.send_frame(TestClient::close_frame, close->payload.substr(0, 2));
  EXPECT_TRUE(test.client.at_end());
  test.client.close();
  EXPECT_TRUE(eventually([&] { return test.probe->closed == 1; }));
}

TEST(WebSocket, WritesTheReasonInUtf8) {
  TestSession test({}, 0);
  test.probe->sink->close(CloseReason::policy, "bad \xFF");
  EXPECT_EQ(test.client.read_message()->payload.substr(2), "bad \xEF\xBF\xBD");
}

TEST(WebSocket, IgnoresWhatArrivesAfterItClosed) {
  TestSession test;
  test.probe->sink->close(CloseReason::normal, "");
  EXPECT_EQ(test.client.read_message()->close_code(), 1000);
  for (int i = 0; i < 100; ++i) test.client.send_frame(TestClient::binary, std::string(1000, 'x'));
  test.client.send_frame(TestClient::close_frame, "\x03\xE8");
  EXPECT_TRUE(test.client.at_end());
  test.client.close();
  EXPECT_TRUE(eventually([&] { return test.probe->closed == 1; }));
  EXPECT_EQ(test.probe->audio_bytes, 0);
}

TEST(WebSocket, GivesUpOnAPeerThatClosesButKeepsItsSocketOpen) {
  NetOptions options;
  options.close_timeout = milliseconds(50);
  TestSession test(options);
  test.client.send_frame(TestClient::close_frame, "\x03\xE8");
  EXPECT_TRUE(eventually([&] { return test.server.stats().open_connections == 0; }));
  EXPECT_EQ(test.probe->closed, 1);
}

TEST(WebSocket, GivesUpOnAPeerThatDoesNotAnswerTheClose) {
  NetOptions options;
  options.close_timeout = milliseconds(50);
  TestSession test(options);
  test.probe->sink->close(CloseReason::normal, "");
  EXPECT_TRUE(eventually([&] { return test.server.stats().open_connections == 0; }));
  EXPECT_EQ(test.probe->closed, 1);
}

TEST(WebSocket, ClosesASessionWhoseStreamDiedSilently) {
  TestSession test;
  test.probe->sink.reset();
  EXPECT_EQ(test.client.read_message()->close_code(), 1011);
}

// More than the sockets' buffers of any default configuration hold.
constexpr int clogging_messages = 640;
constexpr size_t clogging_bytes = 64U << 10U;

std::string numbered(int number, size_t bytes) {
  std::string message = std::to_string(number) + " ";
  message.resize(bytes, 'x');
  return message;
}

TEST(WebSocket, SupersedesPartialsOfASlowReader) {
  NetOptions options;
  options.max_queued_events = clogging_messages + 10;
  TestSession test(options, 0, "/v1/stream", 4096);
  for (int i = 0; i < clogging_messages; ++i) test.probe->sink->send(numbered(i, clogging_bytes), false);
  for (int i = 0; i < 50; ++i) test.probe->sink->send("partial " + std::to_string(i), true);
  test.probe->sink->send("final", false);
  EXPECT_TRUE(eventually([&] { return test.server.stats().superseded_partials == 49; }));
  for (int i = 0; i < clogging_messages; ++i) {
    EXPECT_EQ(test.client.read_message()->payload, numbered(i, clogging_bytes));
  }
  EXPECT_EQ(test.client.read_message()->payload, "partial 49");
  EXPECT_EQ(test.client.read_message()->payload, "final");
}

TEST(WebSocket, ClosesAReaderTooSlowForFinals) {
  NetOptions options;
  options.max_queued_events = 8;
  TestSession test(options, 0, "/v1/stream", 4096);
  for (int i = 0; i < clogging_messages; ++i) test.probe->sink->send(numbered(i, clogging_bytes), false);
  EXPECT_TRUE(eventually([&] { return test.probe->closed == 1; }));
  EXPECT_EQ(test.server.stats().slow_readers, 1);
  for (int expected = 0;; ++expected) {
    const auto frame = test.client.read_message();
    ASSERT_TRUE(frame);
    if (frame->opcode == TestClient::close_frame) {
      EXPECT_EQ(frame->close_code(), 1008);
      EXPECT_GE(expected, 8);
      EXPECT_LT(expected, clogging_messages);
      break;
    }
    ASSERT_EQ(frame->payload, numbered(expected, clogging_bytes)) << "no final is lost before the close";
  }
}

}  // namespace
}  // namespace tutti
