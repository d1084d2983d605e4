#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <atomic>
#include <string_view>

#include "config/result.hpp"
#include "net/address_range.hpp"
#include "net/callback_sender.hpp"

namespace {

std::atomic<bool> is_asked{false};
std::atomic<bool> may_answer{false};

}  // namespace

/// The system's, but for a name whose server is silent.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** found) {
  static const auto system = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (host == nullptr || std::string_view(host) != "silent.test") {
    return system(host, service, hints, found);
  }
  is_asked = true;
  is_asked.notify_all();
  may_answer.wait(false);
  return EAI_AGAIN;
}

namespace tutti {
namespace {

using boost::asio::ip::make_address;

TEST(AddressRange, HoldsTheAddressesThatBeginAlike) {
  const auto range = AddressRange::parse("10.16.0.0/12").value();
  EXPECT_TRUE(range.contains(make_address("10.16.0.0")));
  EXPECT_TRUE(range.contains(make_address("10.31.255.255")));
  EXPECT_FALSE(range.contains(make_address("10.32.0.0")));
  EXPECT_FALSE(range.contains(make_address("10.15.255.255")));
  EXPECT_TRUE(range.contains(make_address("::ffff:10.16.0.1")));
  EXPECT_FALSE(range.contains(make_address("a10::1")));
}

TEST(AddressRange, MayBeOneAddressOrAll) {
  EXPECT_TRUE(AddressRange::parse("::1")->contains(make_address("::1")));
  EXPECT_FALSE(AddressRange::parse("::1")->contains(make_address("::2")));
  EXPECT_TRUE(AddressRange::parse("0.0.0.0/0")->contains(make_address("255.1.2.3")));
  EXPECT_FALSE(AddressRange::parse("0.0.0.0/0")->contains(make_address("::1")));
}

TEST(AddressRange, IsRefusedWhenItIsNone) {
  for (const char* text : {"", "10.0.0.0/33", "10.0.0/8", "::/129", "localhost", "10.0.0.0/", "10.0.0.0/-1",
                           "10.0.0.0/8x", "fe80::1%eth0"}) {
    const auto range = AddressRange::parse(text);
    ASSERT_FALSE(range) << text;
    EXPECT_EQ(range.error().code, "bad_address_range");
  }
}

TEST(PublicAddress, IsNoneOfAPrivateOrSpecialNetwork) {
  for (const char* text : {"0.0.0.0",
                           "10.1.2.3",
                           "100.64.0.1",
                           "127.0.0.1",
                           "127.255.0.1",
                           "169.254.169.254",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.168.1.1",
                           "198.18.0.1",
                           "203.0.113.1",
                           "224.0.0.1",
                           "255.255.255.255",
                           "::",
                           "::1",
                           "::ffff:127.0.0.1",
                           "::ffff:169.254.169.254",
                           "::127.0.0.1",
                           "64:ff9b::7f00:1",
                           "fe80::1",
                           "fc00::1",
                           "fd12:3456::1",
                           "ff02::1",
                           "2001:db8::1",
                           "2001::1",
                           "2002:7f00:1::1"}) {
    EXPECT_FALSE(is_public_address(make_address(text))) << text;
  }
  for (const char* text : {"8.8.8.8", "172.32.0.1", "100.128.0.1", "192.169.0.1", "2606:4700::1111",
                           "2a00:1450::1", "::ffff:8.8.8.8"}) {
    EXPECT_TRUE(is_public_address(make_address(text))) << text;
  }
}

TEST(CallbackUrl, IsOfHttpOrHttps) {
  const auto url = parse_callback_url("https://example.org/results?a=b#c");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host, "example.org");
  EXPECT_EQ(url->port, "443");
  EXPECT_EQ(url->target, "/results?a=b");
  EXPECT_TRUE(url->secure);
  EXPECT_EQ(parse_callback_url("http://[::1]:81")->target, "/");
  EXPECT_EQ(parse_callback_url("http://h?x")->target, "/?x");
  for (const char* text : {"", "ws://h/", "https://", "https://u:p@h/", "https://h:0/", "httpx://h/",
                           "ftp://h/", "https://h/a b", "https://h/\r\nX: y"}) {
    EXPECT_FALSE(parse_callback_url(text)) << text;
  }
}

// openssl dgst -sha256 -hmac "a secret of 16 b" <<< ..., without the line's end.
TEST(CallbackSignature, IsAnHmacOverTimeAndBody) {
  EXPECT_EQ(sign_callback("a secret of 16 b", 1767323045, R"({"a":1})"),
            "t=1767323045,v1=fa6426ae4830df8988f6164131827f1e477932632b637f0daa3e4e347fcfbb92");
}

TEST(CallbackSender, RefusesACaFileItCannotRead) {
  CallbackOptions options;
  options.url = parse_callback_url("https://localhost/").value();
  options.ca_file = "/nonexistent.pem";
  EXPECT_THROW(CallbackSender{options}, SetupError);
}

TEST(CallbackSender, EndsWhileANameIsStillLookedUp) {
  CallbackOptions options;
  options.url = parse_callback_url("https://silent.test/").value();
  CallbackSender sender(options);
  sender.post("s:1", "{}");
  is_asked.wait(false);
  sender.stop(std::chrono::milliseconds(0));
  EXPECT_EQ(sender.stats().dropped, 1);
  EXPECT_EQ(sender.stats().waiting, 0);
  may_answer = true;
  may_answer.notify_all();
}

}  // namespace
}  // namespace tutti
