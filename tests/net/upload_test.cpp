#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/net/fake_gateway.hpp"
#include "tests/net/test_client.hpp"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string post_header(const std::string& more) {
  return "POST /v1/audio/transcriptions?stream=false&x HTTP/1.1\r\nHost: t\r\nContent-Type: audio/wav\r\n" +
         more + "\r\n";
}

std::string post(const std::string& body, const std::string& more = "") {
  return post_header(fmt::format("Content-Length: {}\r\n{}", body.size(), more)) + body;
}

void answer_with(UploadSink& sink, const std::string& body, unsigned status = 200) {
  sink.begin({.status = status,
              .content_type = "text/plain",
              .content_length = body.size(),
              .headers = {{"X-A", "b"}}});
  sink.write(body);
  sink.end();
}

TEST(Upload, PassesOnTheRequestAndItsReply) {
  TestServer test;
  TestClient client(test.server.address());
  client.send(post("0123456789"));
  const auto upload = test.uploads.next();
  EXPECT_EQ(upload->request.content_type, "audio/wav");
  EXPECT_EQ(upload->request.query, "stream=false&x");
  EXPECT_EQ(upload->request.body, "0123456789");
  answer_with(*upload->sink, "HELLO\n", 415);
  const auto response = client.read_response();
  EXPECT_EQ(response.status, 415);
  EXPECT_EQ(response.body, "HELLO\n");
  EXPECT_EQ(response.headers.at("content-type"), "text/plain");
  EXPECT_EQ(response.headers.at("x-a"), "b");
  EXPECT_EQ(response.headers.at("server"), "tutti");
  EXPECT_TRUE(eventually([&] { return upload->written == 6; }));
}

TEST(Upload, LeavesTheConnectionForTheNextRequest) {
  TestServer test;
  TestClient client(test.server.address());
  for (int i = 0; i < 3; ++i) {
    client.send(post(std::string(200'000, 'x')));
    const auto upload = test.uploads.next();
    EXPECT_EQ(upload->request.body.size(), 200'000U);
    answer_with(*upload->sink, "ok");
    EXPECT_EQ(client.read_response().body, "ok");
  }
  EXPECT_EQ(client.request("GET", "/healthz").status, 200);
  EXPECT_TRUE(eventually([&] { return test.uploads.taken == 0; }));
}

TEST(Upload, KeepsARequestThatComesBeforeItsReply) {
  TestServer test;
  TestClient client(test.server.address());
  client.send(post("one") + post("two") + "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n");
  const auto first = test.uploads.next();
  answer_with(*first->sink, "1");
  EXPECT_EQ(client.read_response().body, "1");
  const auto second = test.uploads.next();
  EXPECT_EQ(second->request.body, "two");
  answer_with(*second->sink, "2");
  EXPECT_EQ(client.read_response().body, "2");
  EXPECT_EQ(client.read_response().body, "ok\n");
}

TEST(Upload, ReadsAChunkedBody) {
  TestServer test;
  TestClient client(test.server.address());
  client.send(post_header("Transfer-Encoding: chunked\r\n") + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(test.uploads.next()->request.body, "abcde");
}

TEST(Upload, TakesAnEmptyBody) {
  TestServer test;
  TestClient client(test.server.address());
  client.send(post(""));
  EXPECT_EQ(test.uploads.next()->request.body, "");
}

TEST(Upload, SaysToGoOnToAClientThatExpectsIt) {
  TestServer test;
  TestClient client(test.server.address());
  client.send(post_header("Content-Length: 3\r\nExpect: 100-continue\r\n"));
  EXPECT_EQ(client.read_response(false).status, 100);
  client.send("abc");
  const auto upload = test.uploads.next();
  EXPECT_EQ(upload->request.body, "abc");
  answer_with(*upload->sink, "ok");
  EXPECT_EQ(client.read_response().body, "ok");
}

TEST(Upload, RefusesABodyOverTheCapBeforeReadingIt) {
  NetOptions options;
  options.max_upload_bytes = 1000;
  TestServer test(options);
  TestClient client(test.server.address());
  client.send(post_header("Content-Length: 1001\r\nExpect: 100-continue\r\n"));
  const auto response = client.read_response();
  EXPECT_EQ(response.status, 413);
  EXPECT_THAT(response.body, AllOf(HasSubstr(R"({"error":{"message":)"),
                                   HasSubstr(R"("code":"upload_too_large")"), HasSubstr("1000 bytes")));
  EXPECT_EQ(test.server.stats().refused_uploads, 1);
  EXPECT_EQ(test.server.stats().upload_bytes, 0);
  EXPECT_EQ(test.uploads.taken, 0);
  TestClient fitting(test.server.address());
  fitting.send(post(std::string(1000, 'x')));
  EXPECT_EQ(test.uploads.next()->request.body.size(), 1000U);
}

TEST(Upload, AnswersAClientThatSendsItsOversizedBodyAllTheSame) {
  NetOptions options;
  options.max_upload_bytes = 1000;
  TestServer test(options);
  TestClient client(test.server.address());
  client.send(post(std::string(20'000'000, 'x')));
  EXPECT_EQ(client.read_response().status, 413);
}

TEST(Upload, RefusesAChunkedBodyOnceItIsOverTheCap) {
  NetOptions options;
  options.max_upload_bytes = 1000;
  TestServer test(options);
  TestClient client(test.server.address());
  client.send(post_header("Transfer-Encoding: chunked\r\n") + "200\r\n" + std::string(512, 'x') +
              "\r\n200\r\n" + std::string(512, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 413);
  EXPECT_TRUE(client.at_end());
  EXPECT_EQ(test.uploads.taken, 0);
}

TEST(Upload, RefusesOneMoreThanThereArePlacesFor) {
  TestServer test;
  test.uploads.places = 1;
  TestClient first(test.server.address());
  first.send(post("abc"));
  const auto upload = test.uploads.next();
  TestClient second(test.server.address());
  second.send(post("abc"));
  const auto response = second.read_response();
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.headers.at("retry-after"), "5");
  EXPECT_THAT(response.body, HasSubstr(R"("code":"too_many_uploads")"));
}

TEST(Upload, SendsAReplyOfUnknownLengthInChunks) {
  TestServer test;
  TestClient client(test.server.address());
  client.send(post("abc"));
  const auto upload = test.uploads.next();
  upload->sink->begin(
      {.status = 200, .content_type = "text/event-stream", .content_length = {}, .headers = {}});
  upload->sink->write("data: 1\n\n");
  EXPECT_TRUE(eventually([&] { return upload->written == 9; }));
  upload->sink->write("");
  upload->sink->write(std::string(20, 'y'));
  upload->sink->end();
  client.send("GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n");
  const auto head = client.read_response(false);
  EXPECT_EQ(head.headers.at("transfer-encoding"), "chunked");
  EXPECT_EQ(head.headers.count("content-length"), 0U);
  const std::string body = "9\r\ndata: 1\n\n\r\n14\r\n" + std::string(20, 'y') + "\r\n0\r\n\r\n";
  EXPECT_EQ(client.read_bytes(body.size()), body);
  EXPECT_EQ(client.read_response().body, "ok\n");
}

TEST(Upload, EndsAStreamedReplyOfHttp10WithTheConnection) {
  TestServer test;
  TestClient client(test.server.address());
  client.send(
      "POST /v1/audio/transcriptions HTTP/1.0\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\nx");
  const auto upload = test.uploads.next();
  upload->sink->begin(
      {.status = 200, .content_type = "text/event-stream", .content_length = {}, .headers = {}});
  upload->sink->write("data: 1\n\n");
  upload->sink->end();
  EXPECT_EQ(client.read_response(false).headers.at("connection"), "close");
  EXPECT_EQ(client.read_bytes(9), "data: 1\n\n");
  EXPECT_TRUE(client.at_end());
}

TEST(Upload, IsCancelledWhenItsClientGoesAway) {
  TestServer test;
  TestClient orderly(test.server.address());
  orderly.send(post("abc"));
  const auto first = test.uploads.next();
  orderly.close();
  EXPECT_TRUE(eventually([&] { return first->gone.load(); }));
  TestClient abrupt(test.server.address());
  abrupt.send(post("abc"));
  const auto second = test.uploads.next();
  abrupt.reset();
  EXPECT_TRUE(eventually([&] { return second->gone.load(); }));
  answer_with(*first->sink, "nobody reads this");
  first->sink.reset();
  second->sink.reset();
  EXPECT_TRUE(eventually([&] { return test.server.stats().open_connections == 0; }));
}

TEST(Upload, GivesItsPlaceBackWhenTheBodyStops) {
  NetOptions options;
  options.idle_timeout = std::chrono::milliseconds(50);
  TestServer test(options);
  TestClient half(test.server.address());
  half.send(post_header("Content-Length: 100\r\n") + "abc");
  EXPECT_TRUE(half.at_end());
  TestClient gone(test.server.address());
  gone.send(post_header("Content-Length: 100\r\n") + "abc");
  gone.close();
  EXPECT_TRUE(eventually([&] { return test.uploads.taken == 0; }));
}

TEST(Upload, IsCancelledWhenTheServerStops) {
  TestServer test;
  TestClient client(test.server.address());
  client.send(post("abc"));
  const auto upload = test.uploads.next();
  test.server.stop();
  EXPECT_TRUE(upload->gone);
  EXPECT_TRUE(client.at_end());
}

TEST(Upload, AnswersPostAlone) {
  TestServer test;
  TestClient client(test.server.address());
  const auto response = client.request("GET", "/v1/audio/transcriptions");
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(response.headers.at("allow"), "POST");
  EXPECT_THAT(response.body, HasSubstr(R"({"error":{"message":)"));
}

TEST(Models, ListsTheOneThereIs) {
  TestServer test;
  TestClient client(test.server.address());
  const auto response = client.request("GET", "/v1/models");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body,
            "{\"object\":\"list\",\"data\":[{\"id\":\"fake\",\"object\":\"model\",\"created\":1700000000,"
            "\"owned_by\":\"tutti\"}]}\n");
}

}  // namespace
}  // namespace tutti
