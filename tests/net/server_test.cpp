#include "net/server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/result.hpp"
#include "tests/net/fake_gateway.hpp"
#include "tests/net/test_client.hpp"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string bind_error(const std::string& bind) {
  FakeGateway gateway;
  FakeStatus status;
  FakeUploads uploads;
  FakeSubscriptions subscriptions;
  NetOptions options;
  options.bind = bind;
  try {
    const NetServer server(options, gateway, status, uploads, subscriptions);
  } catch (const SetupError& error) {
    return error.what();
  }
  return "";
}

TEST(NetServer, SaysWhyAnAddressCannotBeBound) {
  TestServer taken;
  EXPECT_EQ(bind_error(taken.server.address()), "cannot listen on " + taken.server.address() +
                                                    ": address already in use; choose another with --bind");
}

TEST(NetServer, SaysHowAnAddressIsWritten) {
  for (const char* bind :
       {"", "8080", "localhost:8080", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "::1:8080"}) {
    EXPECT_THAT(bind_error(bind), AllOf(HasSubstr(bind), HasSubstr("127.0.0.1:8080"))) << bind;
  }
}

TEST(NetServer, ReportsTheChosenPort) {
  TestServer test;
  EXPECT_THAT(test.server.address(),
              AllOf(testing::StartsWith("127.0.0.1:"), testing::Not(testing::EndsWith(":0"))));
}

TEST(NetServer, AnswersAboveTheLimitOfSessionsWith503) {
  NetOptions options;
  options.max_sessions = 1;
  TestServer test(options);
  auto first = std::make_unique<TestClient>(test.server.address());
  ASSERT_EQ(first->upgrade("/v1/stream").status, 101);

  TestClient second(test.server.address());
  const auto refusal = second.upgrade("/v1/stream");
  EXPECT_EQ(refusal.status, 503);
  EXPECT_EQ(refusal.headers.count("retry-after"), 1U);
  EXPECT_THAT(refusal.body, HasSubstr(R"("code":"full")"));
  EXPECT_EQ(test.server.stats().refused_sessions, 1);
  EXPECT_EQ(*test.status.refused.load(), "native: full");

  first.reset();
  EXPECT_TRUE(eventually([&] { return test.server.stats().open_sessions == 0; }));
  EXPECT_EQ(second.upgrade("/v1/stream").status, 101);
}

TEST(NetServer, HoldsBackConnectionsBeyondItsCapUntilOneEnds) {
  NetOptions options;
  options.max_sessions = 1;
  options.max_subscribers = 0;
  TestServer test(options);
  std::vector<TestClient> clients;
  for (int i = 0; i < 100; ++i) clients.emplace_back(test.server.address());
  EXPECT_TRUE(eventually([&] { return test.server.stats().open_connections == 65; }));
  TestClient waiting(test.server.address());
  clients.clear();
  EXPECT_EQ(waiting.request("GET", "/healthz").status, 200);
  EXPECT_LE(test.server.stats().open_connections, 65);
}

TEST(NetServer, ServesManySessionsOnSeveralThreads) {
  NetOptions options;
  options.io_threads = 3;
  TestServer test(options);
  std::vector<TestClient> clients;
  for (int i = 0; i < 200; ++i) {
    clients.emplace_back(test.server.address());
    ASSERT_EQ(clients.back().upgrade("/v1/stream").status, 101);
  }
  for (size_t i = 0; i < clients.size(); ++i) {
    clients[i].send_frame(TestClient::binary, std::string(i, 'x'));
    clients[i].send_frame(TestClient::text, std::to_string(i));
  }
  for (size_t i = 0; i < clients.size(); ++i) {
    const auto frame = clients[i].read_message();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->payload, "echo " + std::to_string(i));
  }
  EXPECT_EQ(test.server.stats().open_sessions, 200);
  EXPECT_EQ(test.server.stats().audio_bytes, 199 * 200 / 2);
  clients.clear();
  EXPECT_TRUE(eventually([&] { return test.server.stats().open_connections == 0; }));
  for (int i = 0; i < 200; ++i) {
    const auto probe = test.gateway.next();
    EXPECT_TRUE(eventually([&] { return probe->closed == 1; }));
  }
}

TEST(NetServer, RefusesStreamsThatWouldGetNoPlaceBeforeTheyAreOpened) {
  TestServer test;
  TestClient open(test.server.address());
  ASSERT_EQ(open.upgrade("/v1/stream").status, 101);
  test.status.refuses = true;
  for (const char* path : {"/v1/stream", "/vosk", "/v1/listen"}) {
    const auto response = TestClient(test.server.address()).upgrade(path);
    EXPECT_EQ(response.status, 503) << path;
    EXPECT_EQ(response.headers.at("retry-after"), "5");
    EXPECT_THAT(response.body, HasSubstr("\"code\":\"full\""));
  }
  TestClient upload(test.server.address());
  EXPECT_EQ(upload.request("POST", "/v1/audio/transcriptions").status, 503);
  EXPECT_EQ(test.server.stats().refused_sessions, 3);
  open.send_frame(TestClient::text, "still here");
  EXPECT_EQ(open.read_message().value().payload, "echo still here");
  test.status.refuses = false;
  EXPECT_EQ(TestClient(test.server.address()).upgrade("/v1/stream").status, 101);
}

TEST(NetServer, ClosesEverythingWhenItStops) {
  auto test = std::make_unique<TestServer>();
  TestClient session(test->server.address());
  ASSERT_EQ(session.upgrade("/v1/stream").status, 101);
  const auto probe = test->gateway.next();
  TestClient idle(test->server.address());
  ASSERT_EQ(idle.request("GET", "/healthz").status, 200);
  auto stopped = std::async(std::launch::async, [&] { test->server.stop(); });
  EXPECT_EQ(session.read_message().value().close_code(), 1001);
  session.close();
  EXPECT_TRUE(idle.at_end());
  stopped.get();
  EXPECT_EQ(probe->closed, 1);
  EXPECT_EQ(test->server.stats().open_connections, 0);
}

TEST(NetServer, StopsInSpiteOfAClientThatDoesNotAnswer) {
  NetOptions options;
  options.close_timeout = std::chrono::milliseconds(50);
  TestServer test(options);
  TestClient client(test.server.address());
  ASSERT_EQ(client.upgrade("/v1/stream").status, 101);
  test.server.stop();
  EXPECT_EQ(client.read_message().value().close_code(), 1001);
  EXPECT_TRUE(client.at_end());
}

TEST(NetServer, LeavesSinksInertBehind) {
  std::shared_ptr<SessionSink> sink;
  {
    TestServer test;
    TestClient client(test.server.address());
    ASSERT_EQ(client.upgrade("/v1/stream").status, 101);
    sink = test.gateway.next()->sink;
    client.close();
  }
  sink->grant(1);
  sink->send("late", false);
  sink->close(CloseReason::normal, "");
}

}  // namespace
}  // namespace tutti
