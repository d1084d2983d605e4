#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/net/fake_gateway.hpp"
#include "tests/net/test_client.hpp"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Http, AnswersHealthReadinessAndMetrics) {
  TestServer test;
  TestClient client(test.server.address());
  const auto health = client.request("GET", "/healthz");
  EXPECT_EQ(health.status, 200);
  EXPECT_EQ(health.body, "ok\n");
  EXPECT_EQ(health.headers.at("server"), "tutti");
  EXPECT_EQ(client.request("GET", "/readyz").status, 200);
  test.status.is_ready = false;
  EXPECT_EQ(client.request("GET", "/readyz").status, 503);
  const auto metrics = client.request("GET", "/metrics?x=1");
  EXPECT_EQ(metrics.body, "tutti_up 1\n");
  EXPECT_THAT(metrics.headers.at("content-type"), HasSubstr("version=0.0.4"));
}

TEST(Http, SaysHowToOpenAStream) {
  TestServer test;
  TestClient client(test.server.address());
  const auto response = client.request("GET", "/v1/stream?encoding=mulaw");
  EXPECT_EQ(response.status, 426);
  EXPECT_EQ(response.headers.at("upgrade"), "websocket");
  EXPECT_EQ(response.headers.at("content-type"), "application/json");
  EXPECT_THAT(response.body,
              AllOf(HasSubstr(R"("code":"upgrade_required")"), HasSubstr("ws://HOST/v1/stream")));
}

TEST(Http, RefusesUnknownPathsAndMethods) {
  TestServer test;
  TestClient client(test.server.address());
  const auto missing = client.request("GET", "/nothing\"here");
  EXPECT_EQ(missing.status, 404);
  EXPECT_THAT(missing.body, HasSubstr(R"("code":"not_found")"));
  const auto method = client.request("DELETE", "/healthz");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.headers.at("allow"), "GET, HEAD");
  EXPECT_EQ(client.request("FROBNICATE", "/v1/stream").status, 405);
}

TEST(Http, AnswersHeadWithoutABody) {
  TestServer test;
  TestClient client(test.server.address());
  const auto head = client.request("HEAD", "/healthz");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "3");
  EXPECT_EQ(client.request("GET", "/healthz").body, "ok\n");
}

TEST(Http, RefusesAnUpgradeElsewhere) {
  TestServer test;
  TestClient client(test.server.address());
  EXPECT_EQ(client.upgrade("/other").status, 404);
}

TEST(Http, ServesPipelinedRequestsInOrder) {
  TestServer test;
  TestClient client(test.server.address());
  client.send(
      "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\nGET /nothing HTTP/1.1\r\nHost: t\r\n\r\n"
      "GET /metrics HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 200);
  EXPECT_EQ(client.read_response().status, 404);
  EXPECT_EQ(client.read_response().body, "tutti_up 1\n");
  EXPECT_TRUE(client.at_end());
}

TEST(Http, ServesARequestThatComesByteByByte) {
  TestServer test;
  TestClient client(test.server.address());
  for (const char byte : std::string_view("GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n"))
    client.send({&byte, 1});
  EXPECT_EQ(client.read_response().body, "ok\n");
}

TEST(Http, ClosesAfterARequestWithABody) {
  TestServer test;
  TestClient client(test.server.address());
  client.send("POST /v1/stream HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n" +
              std::string(100000, 'x'));
  EXPECT_EQ(client.read_response().status, 405);
  EXPECT_TRUE(client.at_end());
}

TEST(Http, RefusesAHeaderThatIsTooLong) {
  NetOptions options;
  options.max_header_bytes = 1024;
  TestServer test(options);
  TestClient client(test.server.address());
  client.send("GET /healthz HTTP/1.1\r\nX: " + std::string(200'000, 'x') + "\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 431);
  EXPECT_TRUE(client.at_end());
}

TEST(Http, RefusesWhatIsNotHttp) {
  TestServer test;
  TestClient client(test.server.address());
  client.send("SSH-2.0-OpenSSH_9.2\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 400);
  EXPECT_TRUE(client.at_end());
  EXPECT_EQ(test.server.stats().bad_http_requests, 1);
}

TEST(Http, DropsAConnectionThatSendsNoRequest) {
  NetOptions options;
  options.handshake_timeout = std::chrono::milliseconds(50);
  TestServer test(options);
  TestClient silent(test.server.address());
  TestClient slow(test.server.address());
  slow.send("GET /healthz HT");
  EXPECT_TRUE(silent.at_end());
  EXPECT_TRUE(slow.at_end());
  EXPECT_TRUE(eventually([&] { return test.server.stats().open_connections == 0; }));
}

TEST(Http, SurvivesGarbage) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  TestServer test;
  for (int i = 0; i < 100; ++i) {
    TestClient client(test.server.address());
    std::string bytes = i % 2 == 0 ? "GET /v1/stream HTTP/1.1\r\n" : "";
    for (size_t n = random() % 300; n > 0; --n) bytes += static_cast<char>(random());
    client.send(bytes);
    if (i % 3 == 0) client.reset();
  }
  TestClient client(test.server.address());
  EXPECT_EQ(client.request("GET", "/healthz").status, 200);
}

TEST(Http, RefusesABrokenHandshake) {
  TestServer test;
  TestClient no_key(test.server.address());
  no_key.send(
      "GET /v1/stream HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Version: 13\r\n\r\n");
  EXPECT_EQ(no_key.read_response().status, 400);
  TestClient old_version(test.server.address());
  old_version.send(
      "GET /v1/stream HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
  EXPECT_EQ(old_version.read_response().status, 426);
  EXPECT_TRUE(eventually([&] { return test.server.stats().open_sessions == 0; }));
}

}  // namespace
}  // namespace tutti
