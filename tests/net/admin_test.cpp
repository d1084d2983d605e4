#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/result.hpp"
#include "tests/net/fake_gateway.hpp"
#include "tests/net/test_client.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;

class FakeAdmin final : public AdminPort {
 public:
  void drain() override { ++drains; }
  void reload(Answer answer) override {
    is_broken ? answer(fail("not_reloaded", "keys.toml:3: what is that")) : answer("keys were read again");
  }

  std::atomic<int> drains{0};
  std::atomic<bool> is_broken{false};
};

/// A server with an admin port, and a key for each kind of client.
struct AdministeredServer {
  AdministeredServer() : server(options(), gateway, status, uploads, subscriptions) {
    server.use_admin(admin);
    server.start();
    clients = server.listeners()[0].address;
    operators = server.listeners()[1].address;
  }
  static NetOptions options() {
    NetOptions options;
    options.bind = "127.0.0.1:0";
    options.admin_bind = "127.0.0.1:0";
    options.credentials = Credentials(
        {{.name = "client", .digest = api_key_digest("client")},
         {.name = "root", .digest = api_key_digest("root"), .terms = {.allowed = Rights(Right::admin)}}});
    return options;
  }
  static TestClient::Response request(const std::string& address, const std::string& line,
                                      const std::string& key, const std::string& more = "") {
    TestClient client(address);
    client.send(line + " HTTP/1.1\r\nHost: t\r\n" + (key.empty() ? "" : "X-API-KEY: " + key + "\r\n") + more +
                "\r\n");
    return client.read_response();
  }

  FakeGateway gateway;
  FakeStatus status;
  FakeUploads uploads;
  FakeSubscriptions subscriptions;
  FakeAdmin admin;
  NetServer server;
  std::string clients;
  std::string operators;
};

TEST(AdminPort, HasTheMeasurementsAndThePublicOneDoesNot) {
  AdministeredServer test;
  EXPECT_TRUE(test.server.listeners()[1].is_admin);
  EXPECT_EQ(test.request(test.operators, "GET /metrics", "client").body, "tutti_up 1\n");
  EXPECT_EQ(test.request(test.operators, "GET /metrics", "").status, 401);
  EXPECT_EQ(test.request(test.operators, "GET /monitor", "").status, 200);
  const auto missing = test.request(test.clients, "GET /metrics", "client");
  EXPECT_EQ(missing.status, 404);
  EXPECT_THAT(missing.body, HasSubstr("at the admin port"));
  EXPECT_EQ(test.request(test.clients, "GET /monitor", "client").status, 404);
  for (const std::string& address : {test.clients, test.operators}) {
    EXPECT_EQ(test.request(address, "GET /healthz", "").status, 200);
    EXPECT_EQ(test.request(address, "GET /readyz", "").status, 200);
    EXPECT_EQ(test.request(address, "GET /assets/theme.css", "").status, 200);
  }
}

TEST(AdminPort, ServesNoClients) {
  AdministeredServer test;
  EXPECT_EQ(test.request(test.operators, "GET /", "client").status, 404);
  EXPECT_EQ(test.request(test.operators, "GET /v1/streams/known/events", "client").status, 404);
  EXPECT_EQ(
      test.request(test.operators, "POST /v1/audio/transcriptions", "client", "Content-Length: 1\r\n").status,
      404);
  const std::string upgrade =
      "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  EXPECT_EQ(test.request(test.operators, "GET /v1/stream", "client", upgrade).status, 404);
  EXPECT_EQ(test.request(test.clients, "GET /v1/stream", "client", upgrade).status, 101);
}

TEST(AdminPort, DrainsAndReloadsForWhoMay) {
  AdministeredServer test;
  EXPECT_EQ(test.request(test.operators, "POST /admin/drain", "client").status, 403);
  EXPECT_EQ(test.request(test.operators, "POST /admin/drain", "").status, 401);
  EXPECT_EQ(test.request(test.operators, "GET /admin/drain", "root").status, 405);
  EXPECT_EQ(test.request(test.clients, "POST /admin/drain", "root").status, 404);
  EXPECT_EQ(test.admin.drains, 0);
  EXPECT_EQ(test.request(test.operators, "POST /admin/drain", "root").status, 202);
  EXPECT_EQ(test.admin.drains, 1);

  EXPECT_EQ(test.request(test.operators, "POST /admin/reload", "root").body, "keys were read again\n");
  test.admin.is_broken = true;
  const auto broken = test.request(test.operators, "POST /admin/reload", "root");
  EXPECT_EQ(broken.status, 409);
  EXPECT_THAT(broken.body, HasSubstr("keys.toml:3: what is that"));
}

TEST(AdminPort, IsNotDrivenByAPageOfAnotherOrigin) {
  AdministeredServer test;
  EXPECT_EQ(
      test.request(test.operators, "POST /admin/drain", "root", "Origin: https://evil.example\r\n").status,
      403);
  EXPECT_EQ(test.admin.drains, 0);
}

TEST(AdminPort, IsForThisMachineAloneUnlessKeysOrTheOwnerSaySo) {
  NetOptions options;
  options.admin_bind = "0.0.0.0:9090";
  try {
    check_listener(options);
    FAIL();
  } catch (const SetupError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--admin-bind 127.0.0.1:9090"));
  }
  options.credentials = AdministeredServer::options().credentials;
  EXPECT_NO_THROW(check_listener(options));
}

TEST(AdminPort, IsNotThereUnlessItIsAskedFor) {
  TestServer test;
  TestClient client(test.server.address());
  EXPECT_EQ(client.request("GET", "/metrics").status, 200);
  EXPECT_EQ(client.request("POST", "/admin/drain").status, 404);
}

}  // namespace
}  // namespace tutti
