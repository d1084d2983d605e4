#include "net/client_url.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

ClientUrl complete(std::string_view url) {
  return with_defaults(parse_client_url(url).value(), {{"sample_rate", "8000"}, {"words", "false"}}).value();
}

TEST(ClientUrl, SplitsHostPortAndTarget) {
  const ClientUrl url = parse_client_url("ws://speech.example:8080/v2?x=1#top").value();
  EXPECT_EQ(url.host, "speech.example");
  EXPECT_EQ(url.port, "8080");
  EXPECT_EQ(url.target, "/v2?x=1");
  EXPECT_EQ(url.authority(), "speech.example:8080");
}

TEST(ClientUrl, HasThePortOfWebSocketsByDefault) {
  EXPECT_EQ(parse_client_url("ws://localhost").value().port, "80");
  EXPECT_EQ(parse_client_url("ws://localhost?x=1").value().target, "?x=1");
}

TEST(ClientUrl, KnowsWhichServersSpeakTls) {
  const ClientUrl url = parse_client_url("wss://speech.example/v2").value();
  EXPECT_TRUE(url.secure);
  EXPECT_EQ(url.host, "speech.example");
  EXPECT_EQ(url.port, "443");
  EXPECT_EQ(url.target, "/v2");
  EXPECT_FALSE(parse_client_url("ws://speech.example").value().secure);
}

TEST(ClientUrl, KnowsAddressesInBrackets) {
  const ClientUrl url = parse_client_url("ws://[::1]:9000/").value();
  EXPECT_EQ(url.host, "::1");
  EXPECT_EQ(url.port, "9000");
  EXPECT_EQ(url.authority(), "[::1]:9000");
  EXPECT_EQ(parse_client_url("ws://[::1]").value().port, "80");
}

TEST(ClientUrl, RefusesWhatItCannotReach) {
  for (const char* url : {"", "127.0.0.1:8080", "http://127.0.0.1", "https://127.0.0.1", "ws://", "ws://:80",
                          "ws://host:", "ws://host:0", "ws://host:65536", "ws://host:http", "ws://user@host",
                          "ws://ho st", "ws://host/\r\nX: y", "ws://[::1", "ws://a]b"}) {
    const auto parsed = parse_client_url(url);
    ASSERT_FALSE(parsed.has_value()) << url;
    EXPECT_EQ(parsed.error().code, "bad_url");
    EXPECT_NE(parsed.error().message.find("ws://127.0.0.1:8080"), std::string::npos);
  }
}

TEST(ClientUrl, AddsThePathAndTheParametersThatAreNotThere) {
  EXPECT_EQ(complete("ws://h").target, "/v1/stream?sample_rate=8000&words=false");
  EXPECT_EQ(complete("ws://h/").target, "/v1/stream?sample_rate=8000&words=false");
  EXPECT_EQ(complete("ws://h?words=true").target, "/v1/stream?words=true&sample_rate=8000");
  EXPECT_EQ(complete("ws://h/other?a=%20&word%73=1&sample_rate=1").target,
            "/other?a=%20&word%73=1&sample_rate=1");
  EXPECT_EQ(with_defaults(parse_client_url("ws://h").value(), {}).value().target, "/v1/stream");
}

TEST(ClientUrl, RefusesAQueryThatCannotBeDecoded) {
  EXPECT_EQ(with_defaults(parse_client_url("ws://h?a=%zz").value(), {}).error().code, "bad_parameter");
}

}  // namespace
}  // namespace tutti
