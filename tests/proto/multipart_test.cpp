#include "proto/multipart.hpp"

#include <gmock/gmock.h>

#include <random>

#include "tests/config/random_bytes.hpp"

namespace tutti::proto {
namespace {

using testing::HasSubstr;

constexpr std::string_view type = "multipart/form-data; boundary=cut";

std::string part(std::string_view name, std::string_view content) {
  return "--cut\r\nContent-Disposition: form-data; name=\"" + std::string(name) + "\"\r\n\r\n" +
         std::string(content) + "\r\n";
}

std::string message_of(std::string_view content_type, std::string_view body) {
  const auto fields = parse_form(content_type, body);
  if (fields) return "";
  EXPECT_EQ(fields.error().code, "bad_multipart");
  return fields.error().message;
}

TEST(Form, GivesItsFieldsInOrder) {
  const std::string file("RIFF\0\r\n--cu\r\n--cutting\r\n\n--", 28);
  const std::string body = part("model", "a") + part("file", file) + part("", "") + "--cut--\r\n";
  const auto fields = parse_form(type, body);
  ASSERT_TRUE(fields) << fields.error().message;
  ASSERT_EQ(fields->size(), 3U);
  EXPECT_EQ((*fields)[0].name, "model");
  EXPECT_EQ((*fields)[0].content, "a");
  EXPECT_EQ((*fields)[1].name, "file");
  EXPECT_EQ((*fields)[1].content, file);
  EXPECT_EQ((*fields)[2].content, "");
}

TEST(Form, FindsTheBoundaryQuotedOrNotAmongOtherParameters) {
  const std::string body = "--a b\"c\r\nContent-Disposition: form-data; name=x\r\n\r\n1\r\n--a b\"c--";
  for (const auto* each : {"multipart/form-data; charset=utf-8; boundary=\"a b\\\"c\"",
                           "multipart/form-data;BOUNDARY = \"a b\\\"c\" ; x=y"}) {
    const auto fields = parse_form(each, body);
    ASSERT_TRUE(fields) << each << ": " << fields.error().message;
    EXPECT_EQ(fields->at(0).content, "1");
  }
  EXPECT_TRUE(parse_form(" multipart/form-data ; boundary=cut ; x", part("a", "b") + "--cut--"));
}

TEST(Form, SkipsPreambleEpilogueAndPaddingBehindABoundary) {
  const std::string body =
      "hello\r\n--cut \t\r\nX: y\r\ncontent-disposition: Form-Data ; filename=\"a;name=b\";"
      " name=\"a\"\r\n\r\n1\r\n--cut--goodbye\r\n--cut\r\n";
  const auto fields = parse_form(type, body);
  ASSERT_TRUE(fields) << fields.error().message;
  ASSERT_EQ(fields->size(), 1U);
  EXPECT_EQ(fields->at(0).name, "a");
  EXPECT_EQ(fields->at(0).content, "1");
}

TEST(Form, MayHoldNothing) {
  const auto fields = parse_form(type, "--cut--\r\n");
  ASSERT_TRUE(fields);
  EXPECT_TRUE(fields->empty());
}

TEST(Form, SaysWhatIsWrong) {
  EXPECT_THAT(message_of("multipart/form-data", "--cut--"), HasSubstr("boundary="));
  EXPECT_THAT(message_of("multipart/form-data; boundary=\"cut", "--cut--"), HasSubstr("boundary="));
  EXPECT_THAT(message_of("multipart/form-data; boundary=" + std::string(71, 'x'), ""), HasSubstr("1 to 70"));
  EXPECT_THAT(message_of(type, ""), HasSubstr("does not occur"));
  EXPECT_THAT(message_of(type, "--cutlery"), HasSubstr("does not occur"));
  EXPECT_THAT(message_of(type, part("a", "b")), HasSubstr("not complete"));
  EXPECT_THAT(message_of(type, part("a", "b") + "--cut"), HasSubstr("not complete"));
  EXPECT_THAT(message_of(type, "--cut\r\n--cut--"), HasSubstr("headers"));
  EXPECT_THAT(message_of(type, "--cut\r\n\r\n\r\ntext\r\n--cut--"), HasSubstr("Content-Disposition"));
  EXPECT_THAT(message_of(type, "--cut\r\nContent-Disposition: form-data\r\n\r\n\r\n--cut--"),
              HasSubstr("name="));
  EXPECT_THAT(message_of(type, "--cut\r\nContent-Disposition: attachment; name=a\r\n\r\n\r\n--cut--"),
              HasSubstr("form-data"));
}

TEST(Form, HasLimitsForPartsAndTheirHeaders) {
  std::string body;
  for (size_t i = 0; i < max_form_fields; ++i) body += part("a", "b");
  EXPECT_EQ(message_of(type, body + "--cut--"), "");
  EXPECT_THAT(message_of(type, body + part("a", "b") + "--cut--"), HasSubstr("more than 64 parts"));
  const std::string long_header =
      "--cut\r\nX: " + std::string(max_field_header_bytes, 'x') + "\r\n\r\n\r\n--cut--";
  EXPECT_THAT(message_of(type, long_header), HasSubstr("within 8192 bytes"));
}

TEST(Form, GivesBackWhateverItsFieldsHold) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> contents;
    std::string body;
    for (unsigned i = random() % 5; i > 0; --i) {
      contents.push_back(random_bytes(random, 200));
      body += part("f", contents.back());
    }
    body += "--cut--";  // the fields are views of it
    const auto fields = parse_form(type, body);
    ASSERT_TRUE(fields) << fields.error().message;
    ASSERT_EQ(fields->size(), contents.size());
    for (size_t i = 0; i < contents.size(); ++i) EXPECT_EQ((*fields)[i].content, contents[i]);
  }
}

TEST(Form, SurvivesWhatLooksLikeOne) {
  constexpr std::string_view pieces[] = {
      "--cut",     "--", "\r\n",  "\r\n\r\n",  "cut",       "\"",
      "\\",        "; ", "name=", "form-data", "boundary=", "Content-Disposition: form-data; name=\"f\"",
      "filename=", "x",  "\r",    "\n"};
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 5000; ++round) {
    const std::string body = "--cut\r\n" + random_pieces(random, pieces, 30);
    const auto fields = parse_form(type, body);
    if (!fields) {
      EXPECT_EQ(fields.error().code, "bad_multipart");
      continue;
    }
    for (const FormField& field : *fields) {
      EXPECT_GE(field.content.data(), body.data());
      EXPECT_LE(field.content.data() + field.content.size(), body.data() + body.size());
    }
    (void)parse_form("multipart/form-data; " + random_pieces(random, pieces, 8), body);
  }
}

TEST(MediaType, LeavesParametersAndCaseAside) {
  EXPECT_EQ(media_type("Audio/WAV; rate=16000"), "audio/wav");
  EXPECT_EQ(media_type("  audio/flac\t"), "audio/flac");
  EXPECT_EQ(media_type(""), "");
}

}  // namespace
}  // namespace tutti::proto
