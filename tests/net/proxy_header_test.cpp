#include "net/proxy_header.hpp"

#include <gmock/gmock.h>

#include <random>

#include "tests/net/fake_gateway.hpp"
#include "tests/net/test_client.hpp"

namespace tutti {
namespace {

using State = ProxyHeaderReader::State;
using testing::HasSubstr;

struct Outcome {
  State state = State::more;
  std::string client;
  size_t used = 0;
};

/// Reads as much as is wanted, in pieces of `most`.
Outcome read(std::string_view bytes, size_t most = 5000) {
  ProxyHeaderReader reader;
  Outcome outcome;
  while (outcome.state == State::more && outcome.used < bytes.size()) {
    const auto piece = bytes.substr(outcome.used, std::min(reader.wanted(), most));
    outcome.used += piece.size();
    outcome.state = reader.take(piece);
  }
  if (outcome.state == State::done && reader.client()) outcome.client = reader.client()->to_string();
  return outcome;
}

std::string binary(char command, char family, std::string_view addresses) {
  std::string header("\r\n\r\n\0\r\nQUIT\n", 12);
  header += command;
  header += family;
  header += static_cast<char>(addresses.size() >> 8U);
  header += static_cast<char>(addresses.size());
  return header.append(addresses);
}

TEST(ProxyHeader, SaysWhoseTheConnectionIs) {
  const std::string v4("\xcb\x00\x71\x07\x7f\x00\x00\x01\x11\x22\x33\x44", 12);
  const std::string v6 =
      std::string("\x20\x01\x0d\xb8", 4) + std::string(11, '\0') + "\x07" + std::string(20, 'x');
  struct Case {
    std::string header;
    std::string client;
  };
  for (const auto& [header, client] : {
           Case{"PROXY TCP4 203.0.113.7 127.0.0.1 56324 443\r\n", "203.0.113.7"},
           Case{"PROXY TCP6 2001:db8::7 ::1 56324 443\r\n", "2001:db8::7"},
           Case{"PROXY UNKNOWN\r\n", ""},
           Case{"PROXY UNKNOWN ffff::1 ffff::1 65535 65535\r\n", ""},
           Case{binary('\x21', '\x11', v4), "203.0.113.7"},
           Case{binary('\x21', '\x21', v6), "2001:db8::7"},
           Case{binary('\x21', '\x11', v4 + "more about it"), "203.0.113.7"},
           Case{binary('\x20', '\x00', ""), ""},
           Case{binary('\x21', '\x31', std::string(216, 'x')), ""},
       }) {
    for (const size_t most : {size_t{1}, size_t{7}, size_t{5000}}) {
      const Outcome outcome = read(header + "GET / HTTP/1.1", most);
      EXPECT_EQ(outcome.state, State::done) << header;
      EXPECT_EQ(outcome.client, client) << header;
      EXPECT_EQ(outcome.used, header.size()) << header;
    }
  }
}

TEST(ProxyHeader, IsRefusedWhenItIsNone) {
  for (const std::string& bytes :
       {std::string("GET /healthz HTTP/1.1\r\n\r\n"), "PROXY " + std::string(200, 'x'),
        std::string("PROXY TCP4 2001:db8::7 ::1 1 2\r\n"), std::string("PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n"),
        std::string("PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n"), std::string("PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n"),
        binary('\x11', '\x11', std::string(12, 'x')), binary('\x22', '\x11', std::string(12, 'x')),
        binary('\x21', '\x11', "short"), binary('\x21', '\x21', std::string(35, 'x')),
        binary('\x21', '\x11', std::string(4097, 'x'))}) {
    EXPECT_EQ(read(bytes).state, State::bad) << bytes;
  }
}

TEST(ProxyHeader, SurvivesGarbage) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = i % 3 == 0 ? "PROXY TCP4 " : i % 3 == 1 ? binary('\x21', '\x11', "") : "";
    for (size_t n = random() % 100; n > 0; --n) bytes += static_cast<char>(random());
    EXPECT_LE(read(bytes).used, bytes.size());
  }
}

/// A server that a proxy on this machine may speak for.
NetOptions behind_proxy(bool proxy_protocol) {
  NetOptions options;
  options.trusted_proxies = {AddressRange::parse("127.0.0.1").value()};
  options.proxy_protocol = proxy_protocol;
  options.max_connections_per_address = 2;
  return options;
}

TEST(BehindAProxy, ConnectionsAreCountedByTheirClients) {
  TestServer test(behind_proxy(true));
  const auto connect = [&](const std::string& client) {
    TestClient connection(test.server.address());
    connection.send("PROXY TCP4 " + client + " 127.0.0.1 56324 443\r\n");
    return connection;
  };
  TestClient first = connect("203.0.113.7");
  EXPECT_EQ(first.upgrade("/v1/stream").status, 101);
  EXPECT_EQ(test.gateway.next()->sink->address(), "203.0.113.7");
  TestClient second = connect("203.0.113.7");
  EXPECT_EQ(second.request("GET", "/healthz").status, 200);
  TestClient third = connect("203.0.113.7");
  EXPECT_TRUE(third.at_end());
  EXPECT_EQ(test.server.stats().refused_addresses, 1);
  TestClient other = connect("203.0.113.8");
  EXPECT_EQ(other.request("GET", "/healthz").status, 200);
  second.close();
  EXPECT_TRUE(eventually([&] { return test.server.stats().open_connections == 2; }));
  TestClient again = connect("203.0.113.7");
  EXPECT_EQ(again.request("GET", "/healthz").status, 200);
}

TEST(BehindAProxy, AConnectionWithoutTheHeaderIsClosed) {
  TestServer test(behind_proxy(true));
  TestClient client(test.server.address());
  client.send("GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_TRUE(client.at_end());
  EXPECT_EQ(test.server.stats().bad_proxy_headers, 1);
}

TestClient::Response upgrade(TestClient& client, const std::string& forwarded_for) {
  client.send(
      "GET /v1/stream HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-Forwarded-For: " +
      forwarded_for + "\r\n\r\n");
  return client.read_response();
}

TEST(BehindAProxy, StreamsAreCountedByWhoTheyAreForwardedFor) {
  TestServer test(behind_proxy(false));
  std::vector<TestClient> clients;
  for (int i = 0; i < 4; ++i) clients.emplace_back(test.server.address());
  EXPECT_EQ(upgrade(clients[0], "1.1.1.1, 203.0.113.7").status, 101);
  EXPECT_EQ(test.gateway.next()->sink->address(), "203.0.113.7");
  EXPECT_EQ(upgrade(clients[1], "203.0.113.7").status, 101);
  const auto refused = upgrade(clients[2], "203.0.113.7");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.count("retry-after"), 1U);
  EXPECT_THAT(refused.body, HasSubstr("too_many_connections"));
  EXPECT_EQ(upgrade(clients[3], "203.0.113.8").status, 101);
  clients[1].reset();
  EXPECT_TRUE(eventually([&] { return test.server.stats().open_sessions == 2; }));
  EXPECT_TRUE(eventually([&] { return upgrade(clients[2], "203.0.113.7").status == 101; }));
}

TEST(BehindNoProxy, NobodyIsBelieved) {
  TestServer test;
  TestClient client(test.server.address());
  EXPECT_EQ(upgrade(client, "203.0.113.7").status, 101);
  EXPECT_EQ(test.gateway.next()->sink->address(), "127.0.0.1");
  TestClient proxy(test.server.address());
  proxy.send("PROXY TCP4 203.0.113.7 127.0.0.1 56324 443\r\nGET /healthz HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(proxy.read_response().status, 400);
}

}  // namespace
}  // namespace tutti
