#include "net/origin.hpp"

#include <gmock/gmock.h>

#include "tests/net/fake_gateway.hpp"
#include "tests/net/test_client.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;

TEST(Origin, IsTheServersOwnWhenItNamesTheHostThatWasAsked) {
  EXPECT_TRUE(is_same_origin("http://tutti.example:8080", "tutti.example:8080"));
  EXPECT_TRUE(is_same_origin("https://tutti.example", "tutti.example"));
  EXPECT_TRUE(is_same_origin("https://Tutti.example", "tutti.example:443"));
  EXPECT_TRUE(is_same_origin("http://tutti.example", "tutti.example:80"));
  EXPECT_TRUE(is_same_origin("http://[::1]:8080", "[::1]:8080"));
  for (const auto& [origin, host] : std::initializer_list<std::pair<const char*, const char*>>{
           {"http://evil.example", "tutti.example"},
           {"http://tutti.example:8081", "tutti.example:8080"},
           {"http://tutti.example.evil.example", "tutti.example"},
           {"https://tutti.example", "tutti.example:80"},
           {"tutti.example", "tutti.example"},
           {"null", "null"},
           {"file://", ""},
           {"http://", ""},
           {"", ""}}) {
    EXPECT_FALSE(is_same_origin(origin, host)) << origin << ' ' << host;
  }
}

TEST(Origin, MayBeAllowedByNameOrAltogether) {
  EXPECT_FALSE(may_use("https://app.example", "tutti.example", {}));
  EXPECT_TRUE(
      may_use("https://app.example", "tutti.example", {"https://other.example", "https://app.example"}));
  EXPECT_FALSE(may_use("http://app.example", "tutti.example", {"https://app.example"}));
  EXPECT_TRUE(may_use("null", "tutti.example", {"*"}));
}

struct BrowserFacing : TestServer {
  BrowserFacing() : TestServer(options()) {}
  static NetOptions options() {
    NetOptions options;
    options.credentials = Credentials({{.name = "alice", .digest = api_key_digest("one")}});
    options.allowed_origins = {"https://app.example"};
    return options;
  }
  TestClient::Response send(const std::string& line, const std::string& headers) {
    TestClient client(server.address());
    client.send(line + " HTTP/1.1\r\nHost: t\r\n" + headers + "\r\n");
    return client.read_response();
  }
};

const std::string handshake =
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: token, one\r\n";

TEST(OriginOfARequest, DecidesWhetherAPageMayOpenAStream) {
  BrowserFacing test;
  const auto refused = test.send("GET /v1/stream", handshake + "Origin: https://evil.example\r\n");
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.body, HasSubstr("origin_not_allowed"));
  EXPECT_EQ(refused.headers.count("access-control-allow-origin"), 0U);
  EXPECT_EQ(test.server.stats().refused_origins, 1);
  EXPECT_EQ(test.send("GET /v1/stream", handshake + "Origin: null\r\n").status, 403);
  for (const char* origin : {"", "Origin: http://t\r\n", "Origin: https://app.example\r\n"}) {
    EXPECT_EQ(test.send("GET /v1/stream", handshake + origin).status, 101) << origin;
  }
}

TEST(OriginOfARequest, IsToldThatItMayReadTheAnswer) {
  BrowserFacing test;
  const std::string origin = "Origin: https://app.example\r\n";
  const auto granted = test.send("GET /v1/models", origin + "Authorization: Bearer one\r\n");
  EXPECT_EQ(granted.status, 200);
  EXPECT_EQ(granted.headers.at("access-control-allow-origin"), "https://app.example");
  EXPECT_EQ(granted.headers.at("vary"), "Origin");
  // Also what is wrong with its key.
  const auto refused = test.send("GET /v1/models", origin);
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers.at("access-control-allow-origin"), "https://app.example");
  const auto own = test.send("GET /v1/models", "Origin: http://t\r\nAuthorization: Bearer one\r\n");
  EXPECT_EQ(own.headers.count("access-control-allow-origin"), 0U);
}

TEST(OriginOfARequest, IsAskedForBeforehandWithoutAKey) {
  BrowserFacing test;
  const std::string asks =
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n";
  const auto granted =
      test.send("OPTIONS /v1/audio/transcriptions", asks + "Origin: https://app.example\r\n");
  EXPECT_EQ(granted.status, 204);
  EXPECT_EQ(granted.headers.at("access-control-allow-origin"), "https://app.example");
  EXPECT_THAT(granted.headers.at("access-control-allow-methods"), HasSubstr("POST"));
  EXPECT_THAT(granted.headers.at("access-control-allow-headers"), HasSubstr("Authorization"));
  EXPECT_EQ(test.send("OPTIONS /v1/audio/transcriptions", asks + "Origin: https://evil.example\r\n").status,
            403);
}

TEST(OriginOfARequest, IsToldInStreamedAnswersToo) {
  NetOptions options;
  options.allowed_origins = {"*"};
  TestServer test(options);
  TestClient client(test.server.address());
  client.send(
      "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: t\r\nOrigin: https://any.example\r\n"
      "Content-Length: 1\r\n\r\nx");
  const auto upload = test.uploads.next();
  upload->sink->begin({.status = 200, .content_type = "text/plain", .content_length = 2, .headers = {}});
  upload->sink->write("ok");
  upload->sink->end();
  const auto response = client.read_response();
  EXPECT_EQ(response.headers.at("access-control-allow-origin"), "https://any.example");
  EXPECT_EQ(response.headers.at("x-content-type-options"), "nosniff");
}

}  // namespace
}  // namespace tutti
