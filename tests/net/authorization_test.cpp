#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/result.hpp"
#include "tests/net/fake_gateway.hpp"
#include "tests/net/test_client.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;

/// A server that lets in who has the key "one".
struct GuardedServer : TestServer {
  GuardedServer() : TestServer(options()) {}
  static NetOptions options() {
    NetOptions options;
    options.credentials = Credentials({{"alice", api_key_digest("one")}});
    return options;
  }
};

TestClient::Response request(const TestServer& test, const std::string& target, const std::string& header) {
  TestClient client(test.server.address());
  client.send("GET " + target + " HTTP/1.1\r\nHost: t\r\n" + header + "\r\n");
  return client.read_response();
}

TestClient::Response upgrade(TestClient& client, const std::string& header) {
  client.send(
      "GET /v1/stream HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
      header + "\r\n");
  return client.read_response();
}

TEST(Authorization, RefusesARequestWithoutAKeyOfTheServers) {
  GuardedServer test;
  for (const char* header : {"", "Authorization: Bearer two\r\n", "X-API-KEY: on\r\n"}) {
    const auto refused = request(test, "/metrics", header);
    EXPECT_EQ(refused.status, 401) << header;
    EXPECT_EQ(refused.headers.at("www-authenticate"), "Bearer");
    EXPECT_THAT(refused.body, HasSubstr(R"("code":"unauthorized")"));
  }
  EXPECT_EQ(request(test, "/nothing", "").status, 401);
  EXPECT_EQ(test.server.stats().unauthorized_requests, 4);
}

TEST(Authorization, TakesTheKeyInAnyOfItsHeaders) {
  GuardedServer test;
  for (const char* header :
       {"Authorization: Bearer one\r\n", "Authorization: Token one\r\n", "x-api-key: one\r\n"}) {
    EXPECT_EQ(request(test, "/metrics", header).status, 200) << header;
  }
}

TEST(Authorization, LeavesHealthAndReadinessOpen) {
  GuardedServer test;
  EXPECT_EQ(request(test, "/healthz", "").status, 200);
  EXPECT_EQ(request(test, "/readyz", "").status, 200);
}

TEST(Authorization, IsCheckedBeforeAnUpgradeAndAConnectionMayTryAgain) {
  GuardedServer test;
  TestClient client(test.server.address());
  EXPECT_EQ(upgrade(client, "").status, 401);
  const auto granted = upgrade(client, "Authorization: Bearer one\r\n");
  EXPECT_EQ(granted.status, 101);
  EXPECT_FALSE(granted.headers.contains("sec-websocket-protocol"));
  EXPECT_EQ(test.gateway.next()->sink->client(), "alice");
  EXPECT_EQ(test.server.stats().sessions, 1);
}

TEST(Authorization, TakesTheKeyAsASubprotocolAndChoosesTheOther) {
  GuardedServer test;
  TestClient client(test.server.address());
  const auto granted = upgrade(client, "Sec-WebSocket-Protocol: token, one\r\n");
  EXPECT_EQ(granted.status, 101);
  EXPECT_EQ(granted.headers.at("sec-websocket-protocol"), "token");
  EXPECT_EQ(test.gateway.next()->sink->client(), "alice");
}

TEST(Authorization, TakesTheKeyOfABrowserThatSpeaksToOpenAi) {
  GuardedServer test;
  TestClient client(test.server.address());
  client.send(
      "GET /v1/realtime HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
      "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.one\r\n\r\n");
  const auto granted = client.read_response();
  EXPECT_EQ(granted.status, 101);
  EXPECT_EQ(granted.headers.at("sec-websocket-protocol"), "realtime");
  EXPECT_EQ(test.gateway.next()->sink->client(), "alice");
}

TEST(Authorization, IsCheckedBeforeABodyIsRead) {
  GuardedServer test;
  TestClient client(test.server.address());
  client.send("POST /v1/stream HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 401);
  EXPECT_TRUE(client.at_end());
}

TEST(Authorization, IsOnlyForServersWithKeys) {
  TestServer test;
  TestClient client(test.server.address());
  const auto granted = upgrade(client, "Sec-WebSocket-Protocol: token, whatever\r\n");
  EXPECT_EQ(granted.status, 101);
  EXPECT_EQ(granted.headers.at("sec-websocket-protocol"), "token");
  EXPECT_EQ(test.gateway.next()->sink->client(), "");
}

std::string refusal(const NetOptions& options) {
  try {
    check_listener(options);
  } catch (const SetupError& error) {
    return error.what();
  }
  return "allowed";
}

TEST(Listener, IsForThisMachineAloneUnlessKeysOrTheOwnerSaySo) {
  NetOptions options;
  for (const char* bind : {"127.0.0.1:0", "127.3.2.1:0", "[::1]:0"}) {
    options.bind = bind;
    EXPECT_EQ(refusal(options).find("everybody"), std::string::npos) << bind;
  }
  options.bind = "0.0.0.0:8080";
  EXPECT_EQ(refusal(options),
            "will not listen on 0.0.0.0:8080 for everybody who can reach it: let in who has a key with "
            "--api-keys-file FILE (`tutti keygen NAME` makes keys), or listen for this machine alone with "
            "--bind 127.0.0.1:8080, or say --insecure");
  FakeGateway gateway;
  FakeStatus status;
  FakeUploads uploads;
  FakeSubscriptions subscriptions;
  EXPECT_THROW(NetServer(options, gateway, status, uploads, subscriptions), SetupError);

  NetOptions insecure = options;
  insecure.insecure = true;
  EXPECT_EQ(refusal(insecure), "allowed");
  options.credentials = GuardedServer::options().credentials;
  EXPECT_EQ(refusal(options), "allowed");
}

TEST(Listener, IsCheckedWithoutTakingAPort) {
  TestServer running;
  NetOptions options;
  options.bind = running.server.address();
  EXPECT_EQ(refusal(options), "allowed");
  options.insecure = true;
  options.bind = "192.0.2.1:8080";  // RFC 5737: nobody's
  EXPECT_THAT(refusal(options),
              HasSubstr("cannot listen on 192.0.2.1:8080: cannot assign requested address"));
}

}  // namespace
}  // namespace tutti
