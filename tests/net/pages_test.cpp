#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/pages.hpp"
#include "tests/net/fake_gateway.hpp"
#include "tests/net/test_client.hpp"

namespace tutti {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Key;
using testing::Not;

TestClient::Response get(const TestServer& test, const std::string& target, const std::string& header = {},
                         const std::string& method = "GET") {
  TestClient client(test.server.address());
  client.send(method + " " + target + " HTTP/1.1\r\nHost: t\r\n" + header + "\r\n");
  return client.read_response(method != "HEAD");
}

TEST(Pages, ServesEachFileWithItsType) {
  TestServer test;
  const std::pair<std::string, std::string> files[] = {
      {"/", "text/html; charset=utf-8"},
      {"/monitor", "text/html; charset=utf-8"},
      {"/assets/theme.css", "text/css; charset=utf-8"},
      {"/assets/captions.mjs", "text/javascript; charset=utf-8"},
      {"/assets/icon.svg", "image/svg+xml"},
  };
  for (const auto& [path, type] : files) {
    const auto response = get(test, path);
    EXPECT_EQ(response.status, 200) << path;
    EXPECT_EQ(response.headers.at("content-type"), type) << path;
    EXPECT_EQ(response.body, find_page(path, Serves::everything)->content) << path;
  }
  EXPECT_THAT(get(test, "/?x=1").body,
              AllOf(HasSubstr("<!doctype html>"), HasSubstr("/assets/captions.mjs")));
  EXPECT_THAT(get(test, "/monitor").body, HasSubstr("/assets/monitor.mjs"));
}

TEST(Pages, CarryAllOfTheirOwnFiles) {
  ASSERT_GT(web_files().size(), 20U);
  for (const WebFile& file : web_files()) {
    EXPECT_FALSE(file.content.empty()) << file.name;
    EXPECT_EQ(file.digest.size(), 64U) << file.name;
    const std::string content(file.content);
    const std::string assets = "\"/assets/";
    for (size_t at = content.find(assets); at != std::string::npos; at = content.find(assets, at + 1)) {
      const std::string path = content.substr(at + 1, content.find('"', at + 1) - at - 1);
      EXPECT_NE(find_page(path, Serves::everything), nullptr) << file.name << " refers to " << path;
    }
  }
}

TEST(Pages, ArePreventedFromTouchingOtherHosts) {
  TestServer test;
  for (const char* path : {"/", "/monitor", "/assets/captions.mjs"}) {
    const auto headers = get(test, path).headers;
    EXPECT_THAT(headers.at("content-security-policy"),
                AllOf(HasSubstr("default-src 'none'"), HasSubstr("script-src 'self'"),
                      HasSubstr("connect-src 'self'"), HasSubstr("frame-ancestors 'none'"),
                      Not(HasSubstr("unsafe")), Not(HasSubstr("*"))));
    EXPECT_EQ(headers.at("x-content-type-options"), "nosniff");
    EXPECT_EQ(headers.at("referrer-policy"), "no-referrer");
    EXPECT_EQ(headers.at("cross-origin-opener-policy"), "same-origin");
    EXPECT_THAT(headers.at("permissions-policy"), HasSubstr("microphone=(self)"));
  }
}

TEST(Pages, AreNotSentAgainToWhoHasThem) {
  TestServer test;
  const auto first = get(test, "/");
  EXPECT_EQ(first.headers.at("cache-control"), "no-cache");
  const std::string tag = first.headers.at("etag");
  for (const std::string& known :
       {tag, "W/" + tag, "\"other\", " + tag, tag + ",\"other\"", std::string("*")}) {
    const auto again = get(test, "/", "If-None-Match: " + known + "\r\n");
    EXPECT_EQ(again.status, 304) << known;
    EXPECT_EQ(again.headers.at("etag"), tag);
    EXPECT_THAT(again.headers, Each(Not(Key("content-length"))));
  }
  for (const std::string& other : {std::string("\"other\""), tag.substr(1, 32), tag.substr(0, 16) + '"',
                                   get(test, "/monitor").headers.at("etag")}) {
    EXPECT_EQ(get(test, "/", "If-None-Match: " + other + "\r\n").body, first.body) << other;
  }
}

TEST(Pages, KeepTheConnectionAfterNotModified) {
  TestServer test;
  const std::string tag = get(test, "/").headers.at("etag");
  TestClient client(test.server.address());
  client.send("GET / HTTP/1.1\r\nHost: t\r\nIf-None-Match: " + tag + "\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 304);
  EXPECT_EQ(client.request("GET", "/healthz").body, "ok\n");
}

TEST(Pages, AnswerHeadWithoutTheBody) {
  TestServer test;
  const auto head = get(test, "/", {}, "HEAD");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"),
            std::to_string(find_page("/", Serves::everything)->content.size()));
}

TEST(Pages, RefuseOtherMethodsAndNames) {
  TestServer test;
  const auto post = get(test, "/", {}, "POST");
  EXPECT_EQ(post.status, 405);
  EXPECT_EQ(post.headers.at("allow"), "GET, HEAD");
  for (const char* path : {"/index.html", "/monitor/", "/assets/", "/assets/nothing.mjs",
                           "/assets/../net/pages.cpp", "/assets//theme.css", "/assets/%2e%2e/x"}) {
    const auto missing = get(test, path);
    EXPECT_EQ(missing.status, 404) << path;
    EXPECT_THAT(missing.body, HasSubstr("/monitor"));
  }
}

/// A server that lets in who has the key "one", with a port for a dialect.
struct GuardedServer : TestServer {
  GuardedServer() : TestServer(options()) {}
  static NetOptions options() {
    NetOptions options;
    options.credentials = Credentials({{"alice", api_key_digest("one")}});
    options.dialect_ports = {{.port = 0, .dialect = proto::find_dialect("vosk")}};
    return options;
  }
};

TEST(Pages, AreOpenToAllAndNothingElseIs) {
  GuardedServer test;
  for (const char* path : {"/", "/monitor", "/assets/theme.css"})
    EXPECT_EQ(get(test, path).status, 200) << path;
  for (const char* path : {"/metrics", "/v1/models", "/assets/nothing.css"}) {
    EXPECT_EQ(get(test, path).status, 401) << path;
  }
}

TEST(Pages, DoNotOpenStreamsWithoutAKey) {
  GuardedServer test;
  for (const auto& listener : test.server.listeners()) {
    TestClient client(listener.address);
    EXPECT_EQ(client.upgrade("/").status, 401) << listener.address;
  }
}

}  // namespace
}  // namespace tutti
