#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/result.hpp"
#include "proto/dialects.hpp"
#include "tests/net/fake_gateway.hpp"
#include "tests/net/test_client.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;

/// Says nothing, and takes text for audio.
class TextAudio final : public proto::Dialect {
 public:
  [[nodiscard]] bool has_audio_in_text() const override { return true; }
  void on_text(std::string_view, proto::Actions&) override {}
  void on_binary(std::span<const std::byte>, bool, proto::Actions&) override {}
  void on_event(int, const proto::ServerEvent&, proto::Actions&) override {}
  void on_fault(const Error&, proto::Actions&) override {}
};

proto::Acceptance accept_with_everything(const proto::Handshake& handshake) {
  if (handshake.query == "refuse") {
    return proto::Refused{.status = 402, .body = R"({"why":"money"})", .headers = {{"x-why", "money"}}};
  }
  return proto::Accepted{.dialect = std::make_unique<TextAudio>(),
                         .subprotocol = std::string(handshake.subprotocols().back()),
                         .headers = {{"x-session", handshake.session}}};
}

constexpr proto::DialectEntry text_audio{
    .name = "text-audio", .path = "/text-audio", .usual_port = 0, .accept = accept_with_everything};

NetOptions with_port_for(const proto::DialectEntry& dialect) {
  NetOptions options;
  options.dialect_ports = {{.port = 0, .dialect = &dialect}};
  return options;
}

std::string upgrade_request(std::string_view target) {
  return "GET " + std::string(target) +
         " HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
         "Sec-WebSocket-Protocol: first, second\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
}

TEST(DialectPort, SpeaksItsDialectAtTheRoot) {
  TestServer test(with_port_for(*proto::find_dialect("native")));
  const auto listeners = test.server.listeners();
  ASSERT_EQ(listeners.size(), 2U);
  EXPECT_EQ(listeners[0].address, test.server.address());
  EXPECT_EQ(listeners[0].root_dialect, "");
  EXPECT_EQ(listeners[1].root_dialect, "native");
  TestClient client(listeners[1].address);
  EXPECT_EQ(client.upgrade("/?encoding=mulaw").status, 101);
  EXPECT_EQ(test.gateway.next()->asked.format.encoding, Encoding::mulaw);
  TestClient elsewhere(test.server.address());
  EXPECT_EQ(elsewhere.upgrade("/").status, 404);
}

TEST(DialectPort, ServesEverythingElseToo) {
  TestServer test(with_port_for(text_audio));
  TestClient client(test.server.listeners()[1].address);
  EXPECT_EQ(client.request("GET", "/healthz").status, 200);
  EXPECT_THAT(client.request("GET", "/").body, HasSubstr("<!doctype html>"));
  EXPECT_EQ(client.upgrade("/v1/stream").status, 101);
}

TEST(DialectPort, IsClosedWithTheMainOne) {
  TestServer test(with_port_for(text_audio));
  const std::string address = test.server.listeners()[1].address;
  test.server.stop();
  EXPECT_TRUE(eventually([&] {
    try {
      return TestClient(address).at_end();
    } catch (const std::exception&) {
      return true;
    }
  }));
}

TEST(DialectPort, ThatIsTakenIsRefused) {
  TestServer taken;
  FakeGateway gateway;
  FakeStatus status;
  FakeUploads uploads;
  FakeSubscriptions subscriptions;
  NetOptions options = with_port_for(text_audio);
  options.bind = "127.0.0.1:0";
  const std::string address = taken.server.address();
  options.dialect_ports[0].port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  EXPECT_THAT(
      [&] { NetServer(options, gateway, status, uploads, subscriptions); },
      testing::ThrowsMessage<SetupError>("cannot listen on " + address +
                                         ": address already in use; choose another with --dialect-at"));
}

TEST(Dialect, ChoosesSubprotocolAndHeaders) {
  TestServer test(with_port_for(text_audio));
  TestClient client(test.server.listeners()[1].address);
  client.send(upgrade_request("/"));
  const auto response = client.read_response();
  EXPECT_EQ(response.status, 101);
  EXPECT_EQ(response.headers.at("sec-websocket-protocol"), "second");
  EXPECT_EQ(response.headers.at("x-session"), test.gateway.next()->request.session);
  EXPECT_THAT(response.headers.at("x-session"),
              testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
}

TEST(Dialect, MayRefuseAHandshake) {
  TestServer test(with_port_for(text_audio));
  TestClient client(test.server.listeners()[1].address);
  client.send(upgrade_request("/?refuse"));
  const auto response = client.read_response();
  EXPECT_EQ(response.status, 402);
  EXPECT_EQ(response.headers.at("x-why"), "money");
  EXPECT_EQ(response.body, R"({"why":"money"})");
  EXPECT_EQ(test.server.stats().open_sessions, 0);
}

TEST(Dialect, WithAudioInTextIsReadOnlyAsFarAsItsCredit) {
  TestServer test(with_port_for(text_audio));
  test.gateway.initial_credit = 1000;
  TestClient client(test.server.listeners()[1].address);
  client.send(upgrade_request("/"));
  ASSERT_EQ(client.read_response().status, 101);
  const auto probe = test.gateway.next();
  const std::string message(600, 'x');
  for (int i = 0; i < 3; ++i) client.send_frame(TestClient::text, message);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(client.read_message()->payload, "echo " + message);
  EXPECT_EQ(test.server.stats().read_stalls, 1);
  EXPECT_EQ(probe->texts, 2);
  probe->sink->grant(201);
  EXPECT_EQ(client.read_message()->payload, "echo " + message);
  // A message may be longer than the credit: it counts at its end.
  probe->sink->grant(600);
  client.send_frame(TestClient::text, std::string(5000, 'y'));
  EXPECT_EQ(client.read_message()->payload.size(), 5005U);
}

TEST(Dialect, IsToldWhereABinaryMessageEnds) {
  TestServer test;
  TestClient client(test.server.address());
  ASSERT_EQ(client.upgrade("/v1/stream").status, 101);
  const auto probe = test.gateway.next();
  client.send_frame(TestClient::binary, std::string(50'000, 'x'));
  client.send_frame(TestClient::binary, "");
  client.send_frame(TestClient::binary, "ab", false);
  client.send_frame(TestClient::continuation, "", false);
  client.send_frame(TestClient::continuation, "");
  client.send_frame(TestClient::text, "end");
  EXPECT_EQ(client.read_message()->payload, "echo end");
  EXPECT_EQ(probe->audio_bytes, 50'002);
  EXPECT_EQ(probe->audio_messages, 3);
}

}  // namespace
}  // namespace tutti
