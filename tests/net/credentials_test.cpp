#include "net/credentials.hpp"

#include <gmock/gmock.h>

namespace tutti {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

const std::chrono::system_clock::time_point now{};

ApiKey stored(const std::string& name, std::string_view key) { return {name, api_key_digest(key)}; }

CredentialHeaders authorization(std::string_view value) { return {value, "", ""}; }
CredentialHeaders x_api_key(std::string_view value) { return {"", value, ""}; }
CredentialHeaders websocket_protocol(std::string_view value) { return {"", "", value}; }

TEST(PresentedKey, IsReadFromEveryHeader) {
  EXPECT_EQ(presented_key(authorization("Bearer k1")), "k1");
  EXPECT_EQ(presented_key(authorization(" bEARER \t k1 ")), "k1");
  EXPECT_EQ(presented_key(authorization("Token k1")), "k1");
  EXPECT_EQ(presented_key(x_api_key(" k2 ")), "k2");
  EXPECT_EQ(presented_key(websocket_protocol("token, k3")), "k3");
  EXPECT_EQ(presented_key(websocket_protocol("token,k3,other")), "k3");
  EXPECT_EQ(presented_key(websocket_protocol("bearer, k4")), "k4");
  for (const char* header : {"realtime, openai-insecure-api-key.k5, openai-beta.realtime-v1",
                             "openai-insecure-api-key.k5", "realtime,openai-insecure-api-key.k5"}) {
    EXPECT_EQ(presented_key(websocket_protocol(header)), "k5") << header;
  }
}

TEST(PresentedKey, IsTheFirstOfSeveral) {
  EXPECT_EQ(presented_key({"Bearer k1", "k2", "token, k3"}), "k1");
  EXPECT_EQ(presented_key({"Basic Zm9v", "k2", ""}), "k2");
}

TEST(PresentedKey, IsNothingInHeadersOfAnotherKind) {
  EXPECT_EQ(presented_key({}), std::nullopt);
  for (const char* header : {"Bearer", "Bearer ", "Basic Zm9v", "k1", "Bearerk1"}) {
    EXPECT_EQ(presented_key(authorization(header)), std::nullopt) << header;
  }
  for (const char* header : {"token", "token,", "token, ", "other, k3", "k3", ",", "bearer", "bearer,",
                             "realtime, openai-insecure-api-key.", "realtime, k3, openai-insecure-api-key"}) {
    EXPECT_EQ(presented_key(websocket_protocol(header)), std::nullopt) << header;
  }
}

TEST(KeySubprotocol, IsChosenOnlyWhereItIsOfferedFirst) {
  EXPECT_EQ(key_subprotocol("token, k"), "token");
  EXPECT_EQ(key_subprotocol("token"), "token");
  EXPECT_EQ(key_subprotocol(" bearer ,k"), "bearer");
  for (const char* header : {"", "tokens, k", "k, token", "k, bearer", "realtime"})
    EXPECT_EQ(key_subprotocol(header), "") << header;
}

TEST(ApiKeyDigest, IsSha256) {
  // FIPS 180-2, appendix B.1.
  EXPECT_EQ(api_key_line(stored("abc", "abc")),
            "abc = \"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"");
}

TEST(Credentials, WithoutKeysLetEverybodyIn) {
  const Credentials open;
  EXPECT_FALSE(open.required());
  EXPECT_EQ(open.admit(authorization("Bearer whatever"), now).value().name, "");
}

TEST(Credentials, NameTheKeyThatIsPresented) {
  const Credentials credentials({stored("alice", "one"), stored("bob", "two")});
  EXPECT_EQ(credentials.admit(authorization("Bearer one"), now).value().name, "alice");
  EXPECT_EQ(credentials.admit(x_api_key("two"), now).value().name, "bob");
}

TEST(Credentials, RefuseWithoutRepeatingTheKey) {
  const Credentials credentials({stored("alice", "right-key")});
  const std::string digest = "76c365c9956f33a4848cdb6ed10306c1ea4e9406865b1705a3ce5d726f46ae37";
  for (const std::string& key : {std::string("right-ke"), std::string("right-keyy"), std::string("RIGHT-KEY"),
                                 std::string("alice"), digest, "sha256:" + digest}) {
    const auto refused = credentials.admit(x_api_key(key), now);
    ASSERT_FALSE(refused) << key;
    EXPECT_EQ(refused.error().code, "unauthorized");
    EXPECT_THAT(refused.error().message, Not(HasSubstr(key)));
  }
  EXPECT_THAT(credentials.admit({}, now).error().message, HasSubstr("Authorization: Bearer KEY"));
}

TEST(GenerateApiKey, GivesAnotherKeyEachTime) {
  const std::string key = generate_api_key();
  EXPECT_THAT(key, MatchesRegex("tutti_[0-9a-f]+"));
  EXPECT_EQ(key.size(), 6 + 64U);
  EXPECT_NE(key, generate_api_key());
}

}  // namespace
}  // namespace tutti
