#include "config/api_keys.hpp"

#include <gmock/gmock.h>

#include <filesystem>

#include "config/result.hpp"
#include "tests/config/temp_directory.hpp"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

constexpr const char* hex = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";

class ApiKeysFile : public ::testing::Test {
 protected:
  void write(const std::string& text) { folder_.write("keys", text); }
  void expect_refusal(const std::string& text, const auto& matcher) {
    write(text);
    EXPECT_THAT([&] { (void)load_api_keys(path_); }, ThrowsMessage<SetupError>(matcher)) << text;
  }

  test::TempDirectory folder_;
  std::string path_ = folder_.path() / "keys";
};

TEST_F(ApiKeysFile, HoldsANameAndADigestALine) {
  write(std::string("# ours\nalice = \"sha256:") + hex + "\"\n\nweb-2 = 'sha256:" + std::string(64, '0') +
        "'\n");
  const auto keys = load_api_keys(path_);
  ASSERT_EQ(keys.size(), 2U);
  EXPECT_EQ(keys[0].name, "alice");
  EXPECT_EQ(keys[0].digest[1], 0x11);
  EXPECT_EQ(keys[0].digest[31], 0xff);
  EXPECT_EQ(keys[1].name, "web-2");
  EXPECT_EQ(keys[1].digest, Sha256{});
}

TEST_F(ApiKeysFile, ReadsTheLineThatIsWritten) {
  ApiKey key{.name = "bob"};
  for (size_t i = 0; i < key.digest.size(); ++i) key.digest[i] = static_cast<uint8_t>(7 * i);
  write(api_key_line(key));
  const auto keys = load_api_keys(path_);
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_EQ(keys[0].name, key.name);
  EXPECT_EQ(keys[0].digest, key.digest);
}

TEST_F(ApiKeysFile, SaysWhatAKeyMayDo) {
  write(std::string("a = \"sha256:") + hex + "\"\n" + "b = { key = \"sha256:" + std::string(64, '1') +
        "\", allow = [\"stream\", \"admin\"], max_streams = 4 }\n[c]\nkey = \"sha256:" +
        std::string(64, '2') + "\"\nallow = []\nmax_requests_per_s = 5\nmax_audio_minutes_per_day = 600\n");
  const auto keys = load_api_keys(path_);
  ASSERT_EQ(keys.size(), 3U);
  EXPECT_EQ(keys[0].terms, ClientTerms{});
  EXPECT_TRUE(keys[0].terms.allowed.has(Right::metrics));
  EXPECT_FALSE(keys[0].terms.allowed.has(Right::admin));
  EXPECT_EQ(keys[1].terms.allowed, Rights(Right::stream, Right::admin));
  EXPECT_EQ(keys[1].terms.limits.max_streams, 4);
  EXPECT_EQ(keys[2].terms.allowed, Rights());
  EXPECT_EQ(keys[2].terms.limits.max_requests_per_s, 5);
  EXPECT_EQ(keys[2].terms.limits.max_audio_minutes_per_day, 600);
}

TEST_F(ApiKeysFile, ReadsTheLineOfAKeyWithTerms) {
  ApiKey key{.name = "bob",
             .terms = {.allowed = Rights(Right::upload, Right::monitor), .limits = {.max_streams = 3}}};
  key.digest[5] = 7;
  EXPECT_THAT(api_key_line(key), HasSubstr(R"(, allow = ["upload", "monitor"], max_streams = 3 })"));
  write(api_key_line(key));
  const auto keys = load_api_keys(path_);
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_EQ(keys[0].digest, key.digest);
  EXPECT_EQ(keys[0].terms, key.terms);
}

TEST_F(ApiKeysFile, TermsThatAreNoneAreRefused) {
  const std::string begin = std::string("a = { key = \"sha256:") + hex + "\", ";
  expect_refusal("a = { allow = [] }", HasSubstr("a has no key"));
  expect_refusal("a = { key = \"tutti_secret\" }",
                 AllOf(HasSubstr("64 hexadecimal"), Not(HasSubstr("secret"))));
  expect_refusal(begin + "allow = \"stream\" }",
                 HasSubstr("a list of stream, upload, monitor, metrics and admin"));
  expect_refusal(begin + "allow = [\"fly\"] }", HasSubstr("a list of stream"));
  expect_refusal(begin + "allow = [5] }", HasSubstr("a list of stream"));
  expect_refusal(begin + "max_stream = 5 }", HasSubstr("a has max_stream, which is none of"));
  expect_refusal(begin + "max_streams = -1 }", HasSubstr("max_streams of a is a whole number from 1"));
  expect_refusal(begin + "max_streams = \"5\" }", HasSubstr("max_streams of a is a whole number from 1"));
}

TEST_F(ApiKeysFile, ARefusalNamesTheLineAndNotTheValue) {
  expect_refusal("\nalice = \"tutti_secret\"\n", AllOf(HasSubstr(path_ + ":2: the value of alice"),
                                                       HasSubstr("sha256:HEX"), Not(HasSubstr("secret"))));
  expect_refusal(std::string("a = \"sha256:") + hex + "0\"", HasSubstr("64 hexadecimal digits"));
  expect_refusal("a = \"sha256:" + std::string(63, '0') + "g\"", HasSubstr("64 hexadecimal digits"));
  expect_refusal("a = \"sha256:" + std::string(62, '0') + "-1\"", HasSubstr("64 hexadecimal digits"));
  expect_refusal("a = 5", HasSubstr("64 hexadecimal digits"));
  expect_refusal(std::string("\"a b\" = \"sha256:") + hex + "\"", HasSubstr("a name is"));
  expect_refusal("a = \"sha256:", HasSubstr(path_ + ":1: "));
}

TEST_F(ApiKeysFile, TheSameKeyUnderTwoNamesIsRefused) {
  const std::string digest = std::string("\"sha256:") + hex + "\"\n";
  expect_refusal("a = " + digest + "b = " + digest, HasSubstr("a and b are the same key"));
  expect_refusal("a = " + digest + "a = " + digest, HasSubstr(":2: "));
}

TEST_F(ApiKeysFile, WithoutKeysOrAbsentIsRefused) {
  expect_refusal("# nobody yet\n", HasSubstr("holds no keys"));
  std::filesystem::remove(path_);
  EXPECT_THAT([&] { (void)load_api_keys(path_); }, ThrowsMessage<SetupError>(HasSubstr(path_)));
}

TEST(ApiKeyName, IsLettersDigitsAndDashes) {
  for (const char* name : {"a", "Alice-2", "_"}) EXPECT_TRUE(is_api_key_name(name)) << name;
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a=b"), std::string("é"), std::string(65, 'a')}) {
    EXPECT_FALSE(is_api_key_name(name)) << name;
  }
}

}  // namespace
}  // namespace tutti
