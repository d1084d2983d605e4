#include "net/tls.hpp"

#include <gmock/gmock.h>

#include "config/result.hpp"
#include "tests/net/fake_gateway.hpp"
#include "tests/net/test_certificate.hpp"
#include "tests/net/test_client.hpp"
#include "tests/net/tls_client.hpp"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

std::string refusal(const std::string& certificate_file, const std::string& key_file) {
  try {
    (void)load_tls_identity(certificate_file, key_file);
  } catch (const SetupError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TlsIdentity, SaysWhoseItIsAndUntilWhen) {
  const TestCertificate test;
  const TlsIdentity identity = load_tls_identity(test.certificate_file(), test.key_file());
  EXPECT_THAT(identity.description, MatchesRegex("CN=localhost, valid until [0-9]+-[0-9]+-[0-9]+"));
  EXPECT_EQ(identity.warning, "");
}

TEST(TlsIdentity, WarnsOfACertificateThatHasExpired) {
  const TestCertificate test(-3600);
  EXPECT_THAT(load_tls_identity(test.certificate_file(), test.key_file()).warning,
              AllOf(HasSubstr(test.certificate_file()), HasSubstr("expired on ")));
}

TEST(TlsIdentity, SaysWhatIsWrongWithAFile) {
  const TestCertificate test;
  const TestCertificate other;
  EXPECT_EQ(refusal("/nowhere/c.pem", test.key_file()),
            "certificate /nowhere/c.pem: No such file or directory");
  EXPECT_EQ(refusal(test.certificate_file(), "/nowhere/k.pem"),
            "key /nowhere/k.pem: No such file or directory");
  EXPECT_THAT(refusal(test.key_file(), test.key_file()),
              AllOf(StartsWith("certificate " + test.key_file()), HasSubstr("BEGIN CERTIFICATE")));
  EXPECT_THAT(refusal(test.certificate_file(), test.certificate_file()),
              AllOf(StartsWith("key " + test.certificate_file()), HasSubstr("BEGIN PRIVATE KEY")));
  EXPECT_THAT(refusal(test.certificate_file(), test.encrypted_key_file()), HasSubstr("or an encrypted one"));
  EXPECT_EQ(refusal(test.certificate_file(), other.key_file()),
            "key " + other.key_file() + ": is not the key of the certificate " + test.certificate_file());
}

class TlsServer : public testing::Test {
 protected:
  NetOptions options() const {
    NetOptions options;
    options.tls = load_tls_identity(certificate.certificate_file(), certificate.key_file());
    return options;
  }
  TlsClient connect(const TestServer& test, int newest = 0) const {
    return TlsClient(test.server.address(), certificate.certificate_file(), newest);
  }

  TestCertificate certificate;
};

TEST_F(TlsServer, AnswersSeveralRequestsAndSaysGoodbye) {
  TestServer test(options());
  TlsClient client = connect(test);
  client.send("GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_THAT(client.read_until("ok\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
  client.send("GET /metrics HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  (void)client.read_until("tutti_up 1\n");
  EXPECT_TRUE(client.at_orderly_end());
}

TEST_F(TlsServer, TellsBrowsersToStayWithTls) {
  TestServer test(options());
  for (const char* path : {"/", "/healthz", "/nowhere", "/v1/streams/known/events"}) {
    TlsClient client = connect(test);
    client.send("GET " + std::string(path) + " HTTP/1.1\r\nHost: t\r\n\r\n");
    EXPECT_THAT(client.read_until("\r\n\r\n"),
                HasSubstr("\r\nStrict-Transport-Security: max-age=2592000\r\n"))
        << path;
  }
  // Over plain TCP nobody could trust it.
  TestServer plain;
  TestClient visitor(plain.server.address());
  EXPECT_EQ(visitor.request("GET", "/").headers.count("strict-transport-security"), 0U);
  TestClient mistaken(test.server.address());
  EXPECT_EQ(mistaken.request("GET", "/").headers.count("strict-transport-security"), 0U);
}

TEST_F(TlsServer, CarriesAnEventStreamAndThenTheNextRequest) {
  TestServer test(options());
  TlsClient client = connect(test);
  client.send("GET /v1/streams/known/events HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_THAT(client.read_until("retry: 2000\n\n\r\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
  const auto sink = test.subscriptions.sink();
  sink->send("event: final\ndata: {}\n\n", false);
  (void)client.read_until("data: {}\n\n\r\n");
  sink->close(CloseReason::normal, "");
  (void)client.read_until("0\r\n\r\n");
  client.send("GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_THAT(client.read_until("ok\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(TlsServer, CarriesAWebSocketInBothDirectionsToItsClose) {
  TestServer test(options());
  TlsClient client = connect(test);
  client.send(
      "GET /v1/stream?encoding=mulaw HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
  EXPECT_THAT(client.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 101 "));
  const auto stream = test.gateway.next();
  EXPECT_EQ(stream->asked.format.encoding, Encoding::mulaw);
  // More than a record holds.
  client.send(TestClient::frame(TestClient::binary, std::string(100000, 'x')));
  EXPECT_TRUE(eventually([&] { return stream->audio_bytes == 100000; }));
  client.send(TestClient::frame(TestClient::text, "hello"));
  (void)client.read_until("echo hello");
  client.send(TestClient::frame(TestClient::close_frame, "\x03\xe8"));
  (void)client.read_until("\x03\xe8");
  EXPECT_TRUE(client.at_orderly_end());
  EXPECT_TRUE(eventually([&] { return stream->closed == 1; }));
}

TEST_F(TlsServer, RefusesVersionsBefore12) {
  TestServer test(options());
  EXPECT_THROW(connect(test, TLS1_1_VERSION), std::runtime_error);
  EXPECT_TRUE(eventually([&] { return test.server.stats().failed_handshakes == 1; }));
  EXPECT_NO_THROW(connect(test, TLS1_2_VERSION));
}

/// A client that trusts this certificate alone: whether it can connect.
bool trusts(const TestServer& test, const TestCertificate& trusted) {
  try {
    const TlsClient client(test.server.address(), trusted.certificate_file());
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

TEST_F(TlsServer, ShowsANewCertificateToNewConnectionsWhileStreamsGoOn) {
  TestServer test(options());
  TlsClient running = connect(test);
  running.send(
      "GET /v1/stream HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
  EXPECT_THAT(running.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 101 "));

  const TestCertificate renewed;
  NetOptions changed = options();
  changed.tls = load_tls_identity(renewed.certificate_file(), renewed.key_file());
  test.server.use(changed);
  EXPECT_TRUE(eventually([&] { return trusts(test, renewed); }));
  EXPECT_FALSE(trusts(test, certificate));
  running.send(TestClient::frame(TestClient::text, "still here"));
  (void)running.read_until("echo still here");
  EXPECT_EQ(test.gateway.next()->closed, 0);
}

TEST_F(TlsServer, NeitherTakesTlsUpNorGivesItUpWhileItRuns) {
  TestServer plain;
  EXPECT_THROW(plain.server.use(options()), SetupError);
  TestServer secure(options());
  EXPECT_THROW(secure.server.use(NetOptions{}), SetupError);
  EXPECT_TRUE(trusts(secure, certificate));
}

TEST_F(TlsServer, TellsAPlainClientWhatItSpeaks) {
  TestServer test(options());
  TestClient plain(test.server.address());
  const auto response = plain.request("GET", "/healthz");
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, AllOf(HasSubstr("tls_required"), HasSubstr("https://")));
  EXPECT_TRUE(plain.at_end());
  EXPECT_EQ(test.server.stats().failed_handshakes, 1);
}

TEST_F(TlsServer, DropsAClientThatDoesNotFinishItsHandshake) {
  NetOptions quick = options();
  quick.handshake_timeout = std::chrono::milliseconds(100);
  TestServer test(quick);
  TestClient silent(test.server.address());
  TestClient halfway(test.server.address());
  halfway.send(std::string_view("\x16\x03\x01", 3));
  EXPECT_TRUE(silent.at_end());
  EXPECT_TRUE(halfway.at_end());
  EXPECT_TRUE(eventually([&] { return test.server.stats().open_connections == 0; }));
}

TEST(PlainServer, ClosesAndCountsConnectionsThatSpeakTls) {
  const TestCertificate certificate;
  TestServer test;
  EXPECT_THROW(TlsClient(test.server.address(), certificate.certificate_file()), std::runtime_error);
  EXPECT_TRUE(eventually([&] { return test.server.stats().tls_on_plain_port == 1; }));
  TestClient plain(test.server.address());
  EXPECT_EQ(plain.request("GET", "/healthz").status, 200);
}

}  // namespace
}  // namespace tutti
