#include "net/jwt.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "tests/config/temp_directory.hpp"
#include "tests/net/test_token.hpp"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

constexpr const char* hs256 = R"({"alg":"HS256","typ":"JWT"})";
constexpr const char* rs256 = R"({"alg":"RS256","typ":"JWT"})";
constexpr const char* es256 = R"({"alg":"ES256","typ":"JWT"})";
// Of an hour from 1700000000 on.
constexpr const char* good = R"({"sub":"alice","aud":"tutti","nbf":1700000000,"exp":1700003600})";
const std::string secret = "a secret that is long enough: 32";

using Time = std::chrono::system_clock::time_point;
Time at(int64_t seconds) { return Time(std::chrono::seconds(seconds)); }
constexpr int64_t inside = 1700000100;

class Jwt : public ::testing::Test {
 protected:
  JwtVerifier load(const std::string& keys, JwtRules rules = {.audience = "tutti", .issuer = {}}) {
    folder_.write("keys", keys);
    return JwtVerifier::load(path_, std::move(rules));
  }
  void expect_refusal(const std::string& keys, const auto& matcher) {
    EXPECT_THAT([&] { (void)load(keys); }, ThrowsMessage<SetupError>(AllOf(HasSubstr(path_), matcher)));
  }
  /// What is wrong with a token of these claims, signed with the secret.
  std::string refusal(const std::string& claims, JwtRules rules = {.audience = "tutti", .issuer = {}},
                      int64_t now = inside) {
    const auto client =
        load(secret, std::move(rules)).verify(sign_with_secret(secret, hs256, claims), at(now));
    return client ? "accepted" : client.error().message;
  }

  test::TempDirectory folder_;
  std::string path_ = folder_.path() / "keys";
};

TEST_F(Jwt, IsAcceptedWithEachAlgorithmAndFormOfKey) {
  const TestKey rsa = TestKey::rsa();
  const TestKey ec = TestKey::ec();
  const std::string oct = fmt::format(R"({{"kty":"oct","k":"{}"}})", base64url(secret));
  struct Case {
    std::string keys;
    std::string token;
  };
  for (const auto& [keys, token] : {
           Case{secret + "\n", sign_with_secret(secret, hs256, good)},
           Case{oct, sign_with_secret(secret, hs256, good)},
           Case{rsa.public_pem(), rsa.sign(rs256, good)},
           Case{rsa.jwk(), rsa.sign(rs256, good)},
           Case{ec.public_pem(), ec.sign(es256, good)},
           Case{ec.jwk(), ec.sign(es256, good)},
           Case{rsa.public_pem() + ec.public_pem(), ec.sign(es256, good)},
           Case{R"({"keys":[)" + rsa.jwk() + "," + oct + "," + ec.jwk() + "]}", ec.sign(es256, good)},
       }) {
    const auto client = load(keys).verify(token, at(inside));
    ASSERT_TRUE(client) << keys << client.error().message;
    EXPECT_EQ(client->subject, "alice");
  }
}

TEST_F(Jwt, IsRefusedUnlessItsPartsAreBase64url) {
  const std::string token = sign_with_secret(secret, hs256, good);
  const JwtVerifier verifier = load(secret);
  ASSERT_TRUE(verifier.verify(token, at(inside)));
  EXPECT_FALSE(verifier.verify("eqJhb=GciOiJIUzI1J9.eyK.c2ln", at(inside)));
  for (size_t i = 0; i <= token.size(); ++i) {
    for (const char* odd : {"=", "==", " ", "+", "\xff", "."}) {
      std::string changed = token;
      changed.insert(i, odd);
      EXPECT_FALSE(verifier.verify(changed, at(inside))) << changed;
    }
    EXPECT_FALSE(verifier.verify(token.substr(0, i), at(inside)) && i < token.size()) << i;
  }
}

TEST_F(Jwt, IsRefusedWithoutASignature) {
  const TestKey rsa = TestKey::rsa();
  const JwtVerifier verifier = load(rsa.public_pem());
  for (const char* header : {R"({"alg":"none"})", R"({"alg":"None"})", R"({"alg":""})", R"({})", rs256}) {
    const std::string token = base64url(header) + "." + base64url(good) + ".";
    EXPECT_FALSE(verifier.verify(token, at(inside))) << header;
  }
}

TEST_F(Jwt, TakesNoPublicKeyForASecret) {
  const TestKey rsa = TestKey::rsa();
  for (const std::string& keys : {rsa.public_pem(), rsa.jwk(), R"({"keys":[)" + rsa.jwk() + "]}"}) {
    const JwtVerifier verifier = load(keys);
    for (const std::string& known : {rsa.public_pem(), rsa.jwk(), keys}) {
      EXPECT_FALSE(verifier.verify(sign_with_secret(known, hs256, good), at(inside)));
      EXPECT_FALSE(verifier.verify(sign_with_secret(known, rs256, good), at(inside)));
    }
  }
}

TEST_F(Jwt, MustNameTheAlgorithmOfItsKey) {
  const TestKey rsa = TestKey::rsa();
  const TestKey ec = TestKey::ec();
  const JwtVerifier verifier = load(R"({"keys":[)" + rsa.jwk() + "," + ec.jwk() + "]}");
  EXPECT_FALSE(verifier.verify(rsa.sign(es256, good), at(inside)));
  EXPECT_FALSE(verifier.verify(ec.sign(rs256, good), at(inside)));
  EXPECT_FALSE(verifier.verify(rsa.sign(R"({"alg":"RS512"})", good), at(inside)));
  EXPECT_FALSE(verifier.verify(rsa.sign(R"({"alg":"RS256","crit":["exp"]})", good), at(inside)));
}

TEST_F(Jwt, IsRefusedWhenAnythingOfItIsChanged) {
  const TestKey ec = TestKey::ec();
  const JwtVerifier verifier = load(ec.public_pem());
  const std::string token = ec.sign(es256, good);
  ASSERT_TRUE(verifier.verify(token, at(inside)));
  EXPECT_FALSE(verifier.verify(TestKey::ec().sign(es256, good), at(inside)));
  const std::string other = ec.sign(es256, R"({"sub":"bob","aud":"tutti","exp":1700003600})");
  const size_t begin = token.find('.');
  const size_t end = token.rfind('.');
  EXPECT_FALSE(verifier.verify(other.substr(0, other.rfind('.')) + token.substr(end), at(inside)));
  std::string forged = token;
  forged[end + 1] = token[end + 1] == 'A' ? 'B' : 'A';
  for (const std::string& broken :
       {std::string(), std::string("."), std::string(".."), std::string("a.b.c"), token.substr(0, end),
        forged, token.substr(begin), token + ".x", std::string(10000, '.')}) {
    EXPECT_FALSE(verifier.verify(broken, at(inside))) << broken;
  }
}

TEST_F(Jwt, IsLookedForUnderItsKeysName) {
  const TestKey first = TestKey::ec();
  const TestKey second = TestKey::ec();
  const JwtVerifier verifier =
      load(R"({"keys":[)" + first.jwk(R"(,"kid":"1")") + "," + second.jwk(R"(,"kid":"2")") + "]}");
  const auto token = [](const TestKey& key, const char* header) { return key.sign(header, good); };
  EXPECT_TRUE(verifier.verify(token(second, R"({"alg":"ES256","kid":"2"})"), at(inside)));
  EXPECT_TRUE(verifier.verify(token(second, es256), at(inside)));
  EXPECT_FALSE(verifier.verify(token(second, R"({"alg":"ES256","kid":"1"})"), at(inside)));
}

TEST_F(Jwt, IsValidFromNbfToExp) {
  EXPECT_EQ(refusal(good), "accepted");
  EXPECT_THAT(refusal(good, {.audience = "tutti", .issuer = {}}, 1700003631), HasSubstr("has expired"));
  EXPECT_EQ(refusal(good, {.audience = "tutti", .issuer = {}}, 1700003629), "accepted");
  EXPECT_THAT(refusal(good, {.audience = "tutti", .issuer = {}}, 1699999969), HasSubstr("not valid yet"));
  EXPECT_EQ(refusal(good, {.audience = "tutti", .issuer = {}}, 1699999971), "accepted");
  EXPECT_THAT(refusal(R"({"sub":"a","aud":"tutti"})"), HasSubstr("has no exp"));
  EXPECT_THAT(refusal(R"({"sub":"a","aud":"tutti","exp":"1700003600"})"), HasSubstr("has no exp"));
  EXPECT_THAT(refusal(R"({"sub":"a","aud":"tutti","exp":1700003600,"nbf":"x"})"), HasSubstr("not valid yet"));
}

TEST_F(Jwt, MustBeForThisServer) {
  const auto with_audience = [](const std::string& audience) {
    return R"({"sub":"a","exp":1700003600,"aud":)" + audience + "}";
  };
  EXPECT_EQ(refusal(with_audience(R"(["x","tutti"])")), "accepted");
  for (const char* audience : {R"("x")", R"(["x"])", "[]", "5", R"({"tutti":1})", R"("tutti2")"}) {
    EXPECT_THAT(refusal(with_audience(audience)), HasSubstr("aud must have \"tutti\"")) << audience;
  }
  EXPECT_THAT(refusal(R"({"sub":"a","exp":1700003600})"), HasSubstr("aud must have"));
}

TEST_F(Jwt, MustBeOfTheIssuerWhereOneIsSet) {
  const JwtRules rules{.audience = "tutti", .issuer = "https://id.example"};
  EXPECT_THAT(refusal(good, rules), HasSubstr("issuer \"https://id.example\""));
  EXPECT_EQ(refusal(R"({"sub":"a","aud":"tutti","exp":1700003600,"iss":"https://id.example"})", rules),
            "accepted");
}

TEST_F(Jwt, MustSayWhoseItIsInALineThatCanBeLogged) {
  for (const char* subject : {R"("")", R"("a b")", R"("a\nb")", R"("é")", "5"}) {
    const std::string claims = fmt::format(R"({{"aud":"tutti","exp":1700003600,"sub":{}}})", subject);
    EXPECT_THAT(refusal(claims), HasSubstr("has no sub")) << subject;
  }
}

TEST_F(Jwt, MayStreamAndUploadUnlessItsScopeSaysOtherwise) {
  const JwtVerifier verifier = load(secret);
  const auto terms = [&](const std::string& more) {
    const std::string claims = R"({"sub":"a","aud":"tutti","exp":1700003600)" + more + "}";
    return verifier.verify(sign_with_secret(secret, hs256, claims), at(inside)).value().terms;
  };
  EXPECT_EQ(terms("").allowed, Rights(Right::stream, Right::upload));
  EXPECT_EQ(terms(R"(,"scope":"openid metrics  monitor")").allowed, Rights(Right::metrics, Right::monitor));
  EXPECT_EQ(terms(R"(,"scope":"openid")").allowed, Rights());
  EXPECT_EQ(terms("").limits, ClientLimits{});
  const ClientLimits limits =
      terms(R"(,"max_streams":2,"max_requests_per_s":3,"max_audio_minutes_per_day":4)").limits;
  EXPECT_EQ(limits.max_streams, 2);
  EXPECT_EQ(limits.max_requests_per_s, 3);
  EXPECT_EQ(limits.max_audio_minutes_per_day, 4);
  EXPECT_THAT(refusal(R"({"sub":"a","aud":"tutti","exp":1700003600,"max_streams":-1})"),
              HasSubstr("max_streams"));
}

TEST_F(Jwt, RefusesKeysThatAreWeakOrNotForThis) {
  expect_refusal("too short", HasSubstr("less than 32 bytes"));
  expect_refusal("", HasSubstr("empty"));
  expect_refusal(TestKey::rsa(1024).public_pem(), HasSubstr("less than 2048 bits"));
  expect_refusal(TestKey::ec("P-384").public_pem(), HasSubstr("neither RSA nor P-256"));
  const TestKey ec = TestKey::ec();
  expect_refusal(ec.private_pem(), HasSubstr("private key"));
  expect_refusal("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
                 HasSubstr("has no such key"));
  expect_refusal(ec.jwk(R"(,"use":"enc")"), HasSubstr("has no such key"));
  expect_refusal(ec.jwk(R"(,"alg":"ES512")"), HasSubstr("has no such key"));
  expect_refusal(R"({"keys":[]})", HasSubstr("has no such key"));
  expect_refusal("{", HasSubstr("is not the JSON"));
  expect_refusal(R"({"kty":"oct","k":"AAECAw=BgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"})",
                 HasSubstr("a key whose k is not base64url"));
  expect_refusal(R"({"kty":"oct","k":"c2VjcmV0LXNlY3JldA"})",
                 AllOf(HasSubstr("less than 32 bytes"), Not(HasSubstr("c2VjcmV0"))));
  std::filesystem::remove(path_);
  EXPECT_THAT([&] { (void)JwtVerifier::load(path_, {}); },
              ThrowsMessage<SetupError>(HasSubstr("No such file or directory")));
}

}  // namespace
}  // namespace tutti
