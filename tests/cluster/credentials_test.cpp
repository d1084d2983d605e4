#include "cluster/credentials.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "cluster/dialer.hpp"
#include "config/result.hpp"
#include "tests/cluster/test_authority.hpp"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string text_of(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Why it is refused; empty when it is not.
std::string refusal(const std::function<void()>& setup) {
  try {
    setup();
  } catch (const SetupError& error) {
    return error.what();
  }
  return {};
}
std::string refusal(const ClusterCredentials& credentials) {
  return refusal([&] { const ClusterIdentity identity(credentials); });
}

class CredentialsTest : public testing::Test {
 protected:
  TestAuthority authority;
  ClusterCredentials good = authority.credentials("engine-1");
};

TEST_F(CredentialsTest, AreKeptAsTheyWereWhenTheyWereChecked) {
  const std::string certificate = text_of(good.certificate);
  const std::string key = text_of(good.key);
  const ClusterIdentity identity(good);
  EXPECT_THAT(identity.description(), HasSubstr("CN=engine-1, valid until 20"));
  std::filesystem::remove(good.certificate);
  (void)authority.file("engine-1.key", "something else");
  EXPECT_EQ(text_of(identity.files().certificate), certificate);
  EXPECT_EQ(text_of(identity.files().key), key);
}

TEST_F(CredentialsTest, AreAllNeeded) {
  EXPECT_THAT(refusal({.certificate = "", .key = good.key, .ca = good.ca}),
              HasSubstr("cluster.certificate = \"\": is needed"));
  EXPECT_THAT(refusal({.certificate = good.certificate, .key = "", .ca = good.ca}),
              HasSubstr("cluster.key = \"\": is needed"));
  EXPECT_THAT(refusal({.certificate = good.certificate, .key = good.key, .ca = ""}),
              HasSubstr("cluster.ca = \"\": is needed"));
  EXPECT_THAT(refusal({.certificate = good.certificate, .key = "/nowhere", .ca = good.ca}),
              HasSubstr("cluster.key = /nowhere: No such file"));
}

TEST_F(CredentialsTest, AnEmptyKeyIsRefused) {
  good.key = authority.file("empty.key", "");
  EXPECT_THAT(refusal(good), HasSubstr("empty.key: is empty"));
}

TEST_F(CredentialsTest, AKeyThatIsNotTheCertificatesIsRefused) {
  good.key = authority.credentials("engine-2").key;
  EXPECT_THAT(refusal(good), AllOf(HasSubstr("cluster.key"), HasSubstr("is not the key of the certificate")));
}

TEST_F(CredentialsTest, ACertificateOfAnotherAuthorityIsRefused) {
  const TestAuthority other("another");
  good.ca = other.credentials("engine-1").ca;
  EXPECT_THAT(refusal(good), AllOf(HasSubstr("cluster.certificate"), HasSubstr("would not be accepted")));
}

TEST_F(CredentialsTest, AnExpiredCertificateIsRefused) {
  EXPECT_THAT(refusal(authority.credentials("engine-3", -60)), HasSubstr("certificate has expired"));
}

TEST_F(CredentialsTest, TheSystemsAuthoritiesAreRefused) {
  const std::string system = "/etc/ssl/certs/ca-certificates.crt";
  if (!std::filesystem::exists(system)) GTEST_SKIP() << "this system has no authorities";
  good.ca = system;
  EXPECT_THAT(refusal(good), AllOf(HasSubstr("cluster.ca"), HasSubstr("the system's list of authorities")));
  good.ca = authority.file("copy.pem", text_of(system));
  EXPECT_THAT(refusal(good),
              AllOf(HasSubstr("cluster.ca"), HasSubstr("as the list of the public ones does")));
}

std::string bind_refusal(const std::string& bind, bool any = false) {
  return refusal([&] { check_cluster_address(bind, any); });
}

TEST(ClusterAddress, IsPrivateUnlessAnyIsAllowed) {
  for (const char* const good : {"127.0.0.1:7000", "10.1.2.3:7000", "172.31.0.1:1", "192.168.0.9:7000",
                                 "169.254.1.1:7000", "100.64.0.1:7000", "[::1]:7000", "[fd12::1]:7000"}) {
    EXPECT_EQ(bind_refusal(good), "") << good;
  }
  for (const char* const bad : {"0.0.0.0:7000", "[::]:7000", "8.8.8.8:7000", "172.32.0.1:7000",
                                "100.128.0.1:7000", "[2001:db8::1]:7000"}) {
    EXPECT_THAT(bind_refusal(bad), HasSubstr("--cluster-bind-any")) << bad;
    EXPECT_EQ(bind_refusal(bad, true), "") << bad;
  }
  EXPECT_THAT(bind_refusal("localhost:7000"), HasSubstr("not ADDRESS:PORT"));
}

}  // namespace
}  // namespace tutti::test
