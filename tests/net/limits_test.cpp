#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>

#include "tests/net/fake_gateway.hpp"
#include "tests/net/test_client.hpp"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A server with one key, "one", on these terms.
struct LimitedServer : TestServer {
  explicit LimitedServer(const ClientTerms& terms) : TestServer(options(terms)) {}
  static NetOptions options(const ClientTerms& terms) {
    NetOptions options;
    options.credentials = Credentials({{.name = "alice", .digest = api_key_digest("one"), .terms = terms}});
    return options;
  }

  TestClient::Response request(const std::string& line, const std::string& more = "") {
    TestClient client(server.address());
    client.send(line + " HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer one\r\n" + more + "\r\n");
    return client.read_response();
  }
  TestClient::Response upgrade(TestClient& client, const std::string& path = "/v1/stream") {
    client.send("GET " + path +
                " HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                "X-API-KEY: one\r\n\r\n");
    return client.read_response();
  }
  TestClient::Response upgrade() {
    TestClient client(server.address());
    return upgrade(client);
  }
};

ClientTerms allowing(Rights rights) { return {.allowed = rights, .limits = {}}; }
ClientTerms limited(const ClientLimits& limits) {
  return {.allowed = ClientTerms{}.allowed, .limits = limits};
}

TEST(Rights, AreAskedForWhateverIsServed) {
  LimitedServer test(allowing(Rights()));
  const auto stream = test.upgrade();
  EXPECT_EQ(stream.status, 403);
  EXPECT_THAT(stream.body, AllOf(HasSubstr(R"("code":"forbidden")"), HasSubstr("allows stream"),
                                 HasSubstr("yours allows nothing")));
  EXPECT_EQ(test.request("GET /metrics").status, 403);
  EXPECT_EQ(test.request("GET /v1/streams/known/events").status, 403);
  const auto upload = test.request("POST /v1/audio/transcriptions", "Content-Length: 5\r\n");
  EXPECT_EQ(upload.status, 403);
  EXPECT_THAT(upload.body, AllOf(HasSubstr(R"("error":{)"), HasSubstr(R"("code":"forbidden")")));
  // What every client may.
  EXPECT_EQ(test.request("GET /v1/models").status, 200);
  EXPECT_EQ(test.server.stats().forbidden_requests, 4);
}

TEST(Rights, AreEachForOneThing) {
  const auto statuses = [](Right right) {
    LimitedServer test(allowing(Rights(right)));
    TestClient upload(test.server.address());
    upload.send(
        "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: t\r\nX-API-KEY: one\r\nExpect: 100-continue\r\n"
        "Content-Length: 5\r\n\r\n");
    return std::array{test.upgrade().status, upload.read_response().status,
                      test.request("GET /v1/streams/none/events").status,
                      test.request("GET /metrics").status};
  };
  EXPECT_EQ(statuses(Right::stream), (std::array{101, 403, 403, 403}));
  EXPECT_EQ(statuses(Right::upload), (std::array{403, 100, 403, 403}));
  EXPECT_EQ(statuses(Right::monitor), (std::array{403, 403, 404, 403}));
  EXPECT_EQ(statuses(Right::metrics), (std::array{403, 403, 403, 200}));
}

TEST(Refusals, AreCountedByWhatWasAskedFor) {
  LimitedServer test(allowing(Rights()));
  const auto refused = [&] { return *test.status.refused.exchange(std::make_shared<const std::string>()); };
  test.status.refused = std::make_shared<const std::string>();
  for (const char* path : {"/v1/stream", "/vosk", "/v1/listen"}) {
    TestClient client(test.server.address());
    ASSERT_EQ(test.upgrade(client, path).status, 403);
    EXPECT_EQ(refused(), std::string(proto::find_dialect_at(path)->name) + ": forbidden");
  }
  EXPECT_EQ(test.request("POST /v1/audio/transcriptions", "Content-Length: 5\r\n").status, 403);
  EXPECT_EQ(refused(), "upload: forbidden");
  EXPECT_EQ(test.request("GET /metrics").status, 403);
  EXPECT_EQ(refused(), "") << "no stream was asked for";
  EXPECT_EQ(test.request("GET /v1/stream", "Origin: https://elsewhere.example\r\n").status, 403);
  EXPECT_EQ(refused(), "") << "nor there";
}

TEST(Refusals, OfWhatADialectDoesNotTakeAreCounted) {
  TestServer test;
  TestClient client(test.server.address());
  ASSERT_EQ(client.upgrade("/listen?channels=9").status, 400);
  EXPECT_EQ(*test.status.refused.load(), "jambonz: bad_request");
}

TEST(Limits, OfStreamsCountThoseThatAreOpen) {
  LimitedServer test(limited({.max_streams = 1}));
  TestClient first(test.server.address());
  ASSERT_EQ(test.upgrade(first).status, 101);
  for (const char* path : {"/v1/stream", "/vosk", "/v1/listen", "/v1/realtime"}) {
    TestClient second(test.server.address());
    const auto refused = test.upgrade(second, path);
    EXPECT_EQ(refused.status, 429) << path;
    EXPECT_EQ(refused.headers.count("retry-after"), 1U) << path;
    EXPECT_THAT(refused.body, HasSubstr(R"("code":"too_many_streams")")) << path;
  }
  EXPECT_EQ(test.server.stats().limited_requests, 4);
  first.reset();
  EXPECT_TRUE(eventually([&] { return test.upgrade().status == 101; }));
}

TEST(Limits, OfStreamsCountFilesToo) {
  LimitedServer test(limited({.max_streams = 1}));
  TestClient upload(test.server.address());
  upload.send(
      "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: t\r\nX-API-KEY: one\r\nContent-Length: 1\r\n\r\nx");
  const auto running = test.uploads.next();
  const auto refused = test.request("POST /v1/audio/transcriptions", "Content-Length: 1\r\n");
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, AllOf(HasSubstr(R"("error":{)"), HasSubstr("too_many_streams")));
  running->sink->begin({.status = 200, .content_type = "text/plain", .content_length = 2, .headers = {}});
  running->sink->write("ok");
  running->sink->end();
  EXPECT_EQ(upload.read_response().status, 200);
  EXPECT_TRUE(eventually([&] { return test.upgrade().status == 101; }));
}

TEST(Limits, OfRequestsAnswer429AndLeaveTheConnection) {
  LimitedServer test(limited({.max_requests_per_s = 1}));
  TestClient client(test.server.address());
  const std::string request = "GET /v1/models HTTP/1.1\r\nHost: t\r\nX-API-KEY: one\r\n\r\n";
  client.send(request);
  EXPECT_EQ(client.read_response().status, 200);
  client.send(request);
  const auto refused = client.read_response();
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_THAT(refused.body, HasSubstr("rate_limited"));
  EXPECT_TRUE(eventually([&] {
    client.send(request);
    return client.read_response().status == 200;
  }));
}

TEST(Limits, OfAudioEndAStreamAndRefuseTheNext) {
  LimitedServer test(limited({.max_audio_minutes_per_day = 1}));
  TestClient client(test.server.address());
  ASSERT_EQ(test.upgrade(client).status, 101);
  const auto stream = test.gateway.next();
  stream->sink->note_audio(59);
  client.send_frame(TestClient::text, "still here");
  EXPECT_EQ(client.read_message().value().payload, "echo still here");
  stream->sink->note_audio(2);
  EXPECT_THAT(client.read_message().value().payload, HasSubstr("audio_limit"));
  const auto close = client.read_message();
  EXPECT_EQ(close.value().close_code(), 1008);
  EXPECT_THAT(close->payload, HasSubstr("minutes of audio"));
  EXPECT_EQ(test.server.stats().ended_sessions, 1);

  const auto refused = test.upgrade();
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr(R"("code":"audio_limit")"));
  EXPECT_GT(std::stoi(refused.headers.at("retry-after")), 0);
}

TEST(Limits, OfAudioCountFiles) {
  LimitedServer test(limited({.max_audio_minutes_per_day = 1}));
  TestClient client(test.server.address());
  client.send(
      "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: t\r\nX-API-KEY: one\r\nContent-Length: 1\r\n\r\nx");
  const auto upload = test.uploads.next();
  upload->sink->note_audio(61);
  upload->sink->begin({.status = 200, .content_type = "text/plain", .content_length = 2, .headers = {}});
  upload->sink->write("ok");
  upload->sink->end();
  EXPECT_EQ(client.read_response().status, 200);
  EXPECT_EQ(test.upgrade().status, 429);
}

TEST(Limits, OfTheServerEndAStreamThatIsOpenForTooLong) {
  NetOptions options;
  options.max_stream = std::chrono::milliseconds(100);
  TestServer test(options);
  TestClient client(test.server.address());
  ASSERT_EQ(client.upgrade("/v1/stream").status, 101);
  EXPECT_THAT(client.read_message().value().payload, HasSubstr("stream_too_long"));
  EXPECT_EQ(client.read_message().value().close_code(), 1008);
  EXPECT_EQ(test.server.stats().ended_sessions, 1);
}

TEST(Credentials, AreReplacedWhileStreamsGoOn) {
  LimitedServer test(limited({}));
  TestClient client(test.server.address());
  ASSERT_EQ(test.upgrade(client).status, 101);
  TestClient kept(test.server.address());
  const std::string request = "GET /v1/models HTTP/1.1\r\nHost: t\r\nX-API-KEY: one\r\n\r\n";
  kept.send(request);
  EXPECT_EQ(kept.read_response().status, 200);
  NetOptions renewed;
  renewed.credentials = Credentials({{.name = "bob", .digest = api_key_digest("two")}});
  test.server.use(renewed);
  EXPECT_TRUE(eventually([&] { return test.upgrade().status == 401; }));
  kept.send(request);
  EXPECT_EQ(kept.read_response().status, 401);
  client.send_frame(TestClient::text, "still here");
  EXPECT_EQ(client.read_message().value().payload, "echo still here");
}

TEST(Limits, ThatAreReplacedHoldForConnectionsMadeFromThenOn) {
  NetOptions options;
  options.max_sessions = 1;
  options.max_message_bytes = 1 << 10;
  TestServer test(options);
  const std::string message(2 << 10, 'x');
  TestClient before(test.server.address());
  ASSERT_EQ(before.upgrade("/v1/stream").status, 101);
  EXPECT_EQ(TestClient(test.server.address()).upgrade("/v1/stream").status, 503);

  options.max_sessions = 2;
  options.max_message_bytes = 4 << 10;
  test.server.use(options);
  std::optional<TestClient> after;
  EXPECT_TRUE(
      eventually([&] { return after.emplace(test.server.address()).upgrade("/v1/stream").status == 101; }));
  after->send_frame(TestClient::text, message);
  EXPECT_EQ(after->read_message().value().payload, "echo " + message);
  before.send_frame(TestClient::text, message);
  EXPECT_THAT(before.read_message().value().payload, HasSubstr("message_too_long"));
}

}  // namespace
}  // namespace tutti
