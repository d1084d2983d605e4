#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/net/fake_gateway.hpp"
#include "tests/net/test_client.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* events = "/v1/streams/known/events";

/// Reads the head of an answer that has no length.
std::string read_head(TestClient& client) {
  std::string head;
  while (!head.ends_with("\r\n\r\n")) head += client.read_bytes(1);
  return head;
}

/// Reads one chunk of HTTP/1.1; empty at the last.
std::string read_chunk(TestClient& client) {
  std::string size;
  while (!size.ends_with("\r\n")) size += client.read_bytes(1);
  std::string chunk = client.read_bytes(std::stoul(size, nullptr, 16) + 2);
  chunk.resize(chunk.size() - 2);
  return chunk;
}

std::string get(const std::string& target, const std::string& headers = {}) {
  return "GET " + target + " HTTP/1.1\r\nHost: t\r\n" + headers + "\r\n";
}

struct EventStream : TestServer {
  explicit EventStream(NetOptions options = {}, int receive_buffer = 0)
      : TestServer(std::move(options)), client(server.address(), receive_buffer) {}

  /// Up to the first event.
  void begin() {
    client.send(get(events));
    head = read_head(client);
    first = read_chunk(client);
    sink = subscriptions.sink();
  }

  TestClient client;
  std::string head;
  std::string first;
  std::shared_ptr<SessionSink> sink;
};

TEST(EventStream, IsServerSentEventsUntilTheEndOfTheStream) {
  EventStream test;
  test.begin();
  EXPECT_THAT(test.head, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(test.head, HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_THAT(test.head, HasSubstr("Cache-Control: no-cache\r\n"));
  EXPECT_EQ(test.first, "retry: 2000\n\n");
  test.sink->send("event: final\ndata: {}\n\n", false);
  EXPECT_EQ(read_chunk(test.client), "event: final\ndata: {}\n\n");
  test.sink->send("event: end\ndata: {}\n\n", false);
  test.sink->close(CloseReason::normal, "the session has ended");
  EXPECT_EQ(read_chunk(test.client), "event: end\ndata: {}\n\n");
  EXPECT_EQ(read_chunk(test.client), "");
  EXPECT_TRUE(eventually([&] { return test.subscriptions.taken == 0; }));
  EXPECT_EQ(test.server.stats().subscriptions, 1);
  EXPECT_EQ(test.server.stats().open_sessions, 0);
}

TEST(EventStream, AsksForTheStreamOfThePathFromWhereItsReaderLeftOff) {
  TestServer test;
  TestClient client(test.server.address());
  client.send(get("/v1/streams/a%2Fb/events?x=y", "Last-Event-ID: s:4\r\n"));
  EXPECT_EQ(client.read_response().status, 404);
  const SubscriptionRequest request = test.subscriptions.request();
  EXPECT_EQ(request.stream, "a/b");
  EXPECT_EQ(request.form, proto::SubscriberForm::event_stream);
  ASSERT_TRUE(request.after);
  EXPECT_EQ(request.after->session, "s");
  EXPECT_EQ(request.after->number, 4U);
}

TEST(EventStream, LeavesTheConnectionToTheNextRequest) {
  EventStream test;
  test.begin();
  test.sink->close(CloseReason::normal, "");
  EXPECT_EQ(read_chunk(test.client), "");
  EXPECT_EQ(test.client.request("GET", "/healthz").status, 200);
}

TEST(EventStream, HasNoChunksForAClientOfHttp10) {
  EventStream test;
  test.client.send("GET " + std::string(events) + " HTTP/1.0\r\n\r\n");
  EXPECT_THAT(read_head(test.client), HasSubstr("Connection: close\r\n"));
  EXPECT_EQ(test.client.read_bytes(13), "retry: 2000\n\n");
  test.subscriptions.sink()->close(CloseReason::normal, "");
  EXPECT_TRUE(test.client.at_end());
}

TEST(EventStream, RefusesWithAReason) {
  TestServer test;
  TestClient client(test.server.address());
  const auto unknown = client.request("GET", "/v1/streams/unknown/events");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.body, HasSubstr("\"no_such_stream\""));
  EXPECT_EQ(client.request("GET", "/v1/streams/read/events").status, 204);
  EXPECT_EQ(client.request("GET", "/v1/streams/%zz/events").status, 400);
  const auto posted = client.request("POST", events);
  EXPECT_EQ(posted.status, 405);
  EXPECT_EQ(posted.headers.at("allow"), "GET");
  EXPECT_EQ(client.request("GET", "/v1/streams/known").status, 404);
  test.subscriptions.taken = 1;
  const auto full = client.request("GET", events);
  EXPECT_EQ(full.status, 503);
  EXPECT_EQ(full.headers.at("retry-after"), "5");
}

TEST(EventStream, GivesItsPlaceBackWhenTheReaderLeaves) {
  EventStream test;
  test.begin();
  EXPECT_EQ(test.subscriptions.taken, 1);
  test.client.close();
  EXPECT_TRUE(eventually([&] { return test.subscriptions.taken == 0; }));
  test.sink->send("too late", false);
  EXPECT_TRUE(eventually([&] { return test.server.stats().open_connections == 0; }));
}

TEST(EventStream, SaysSomethingNowAndThen) {
  NetOptions options;
  options.ping_interval = std::chrono::milliseconds(20);
  EventStream test(options);
  test.begin();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read_chunk(test.client), ":\n\n");
}

TEST(EventStream, DropsAReaderThatDoesNotReadWithAReason) {
  NetOptions options;
  options.max_queued_events = 2;
  EventStream test(options, 4096);
  test.begin();
  const std::string event = "data: " + std::string(100'000, 'x') + "\n\n";
  int sent = 0;
  EXPECT_TRUE(eventually([&] {
    test.sink->send(event, false);
    ++sent;
    return test.server.stats().slow_subscribers == 1;
  }));
  EXPECT_TRUE(eventually([&] { return test.subscriptions.taken == 0; }));
  std::string chunk;
  for (int i = 0; i < sent; ++i) {
    chunk = read_chunk(test.client);
    if (chunk != event) break;
  }
  EXPECT_THAT(chunk, StartsWith("event: error\ndata: {\"type\":\"error\",\"code\":\"too_slow\""));
  EXPECT_EQ(read_chunk(test.client), "");
}

TEST(EventStream, IsSentToItsEndWhenTheServerStops) {
  EventStream test;
  test.begin();
  for (int i = 0; i < 50; ++i) test.sink->send("event: final\ndata: {}\n\n", false);
  test.sink->close(CloseReason::going_away, "the server is shutting down");
  test.server.stop();
  for (int i = 0; i < 50; ++i) ASSERT_EQ(read_chunk(test.client), "event: final\ndata: {}\n\n") << i;
  EXPECT_THAT(read_chunk(test.client), HasSubstr("the server is shutting down"));
  EXPECT_EQ(read_chunk(test.client), "");
}

TEST(EventStream, EndsWithTheServerAlthoughNobodyClosedIt) {
  EventStream test;
  test.begin();
  test.server.stop();
  EXPECT_EQ(read_chunk(test.client), "");
}

TEST(Subscriber, ReadsEventsOverAWebSocket) {
  TestServer test;
  TestClient client(test.server.address());
  ASSERT_EQ(client.upgrade(events).status, 101);
  EXPECT_EQ(test.subscriptions.request().form, proto::SubscriberForm::websocket);
  const auto sink = test.subscriptions.sink();
  sink->send(R"({"type":"final"})", false);
  EXPECT_EQ(client.read_message()->payload, R"({"type":"final"})");
  sink->close(CloseReason::normal, "the session has ended");
  const auto closed = client.read_message();
  EXPECT_EQ(closed->close_code(), 1000);
  client.send_frame(TestClient::close_frame, closed->payload);
  client.close();
  EXPECT_TRUE(eventually([&] { return test.subscriptions.taken == 0; }));
  EXPECT_EQ(test.server.stats().sessions, 0);
}

TEST(Subscriber, IsRefusedBeforeTheUpgrade) {
  TestServer test;
  TestClient client(test.server.address());
  EXPECT_EQ(client.upgrade("/v1/streams/unknown/events").status, 404);
}

TEST(Subscriber, MaySayWhatItLikes) {
  NetOptions options;
  options.max_message_bytes = 100'000;
  TestServer test(options);
  TestClient client(test.server.address());
  ASSERT_EQ(client.upgrade(events).status, 101);
  for (int i = 0; i < 5; ++i) client.send_frame(TestClient::binary, std::string(90'000, 'x'));
  client.send_frame(TestClient::text, "hello");
  client.send_frame(TestClient::ping, "still there?");
  const auto pong = client.read_message();
  EXPECT_EQ(pong->opcode, TestClient::pong);
  EXPECT_EQ(pong->payload, "still there?");
  client.send_frame(TestClient::binary, std::string(100'001, 'x'));
  EXPECT_EQ(client.read_message()->close_code(), 1009);
}

TEST(Subscriber, MayBeSilentForAnyTime) {
  NetOptions options;
  options.idle_timeout = std::chrono::milliseconds(50);
  options.ping_interval = std::chrono::milliseconds(20);
  TestServer test(options);
  TestClient client(test.server.address());
  ASSERT_EQ(client.upgrade(events).status, 101);
  // Twenty pings: many times the limit of a session.
  for (int i = 0; i < 20; ++i) ASSERT_EQ(client.read_frame()->opcode, TestClient::ping);
  EXPECT_EQ(test.server.stats().idle_sessions, 0);
}

TEST(Subscriber, TakesNoPlaceOfASession) {
  NetOptions options;
  options.max_sessions = 1;
  TestServer test(options);
  TestClient reader(test.server.address());
  TestClient session(test.server.address());
  ASSERT_EQ(reader.upgrade(events).status, 101);
  EXPECT_EQ(session.upgrade("/v1/stream").status, 101);
}

TEST(Subscriber, GivesItsPlaceBackWhenItVanishes) {
  TestServer test;
  TestClient client(test.server.address());
  ASSERT_EQ(client.upgrade(events).status, 101);
  (void)test.subscriptions.sink();
  client.reset();
  EXPECT_TRUE(eventually([&] { return test.subscriptions.taken == 0; }));
}

TEST(Subscriber, IsToldThatTheServerStops) {
  TestServer test;
  TestClient client(test.server.address());
  ASSERT_EQ(client.upgrade(events).status, 101);
  const auto sink = test.subscriptions.sink();
  sink->send("last", false);
  sink->close(CloseReason::going_away, "the server is shutting down");
  std::thread stop([&] { test.server.stop(); });
  EXPECT_EQ(client.read_message()->payload, "last");
  const auto closed = client.read_message();
  EXPECT_EQ(closed->close_code(), 1001);
  client.send_frame(TestClient::close_frame, closed->payload);
  client.close();
  stop.join();
}

TEST(Subscriber, NeedsAKeyWhereOneIsNeeded) {
  NetOptions options;
  options.credentials = Credentials({{.name = "alice", .digest = api_key_digest("secret")}});
  TestServer test(options);
  TestClient client(test.server.address());
  EXPECT_EQ(client.request("GET", events).status, 401);
  client.send(get("/v1/streams/unknown/events", "Authorization: Bearer secret\r\n"));
  EXPECT_EQ(client.read_response().status, 404);
  EXPECT_EQ(test.subscriptions.request().client, "alice");
}

}  // namespace
}  // namespace tutti
