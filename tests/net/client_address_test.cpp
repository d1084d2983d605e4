#include "net/client_address.hpp"

#include <gmock/gmock.h>

namespace tutti {
namespace {

using boost::asio::ip::make_address;

const std::vector<AddressRange> proxies{AddressRange::parse("10.0.0.0/8").value(),
                                        AddressRange::parse("fd00::/8").value()};

std::string client_of(const char* peer, std::string_view forwarded_for) {
  return client_address(make_address(peer), forwarded_for, proxies).to_string();
}

TEST(ClientAddress, IsThePeerUnlessThatIsATrustedProxy) {
  EXPECT_EQ(client_of("203.0.113.5", ""), "203.0.113.5");
  EXPECT_EQ(client_of("203.0.113.5", "192.0.2.1"), "203.0.113.5");
  EXPECT_EQ(client_of("10.0.0.1", ""), "10.0.0.1");
  EXPECT_EQ(client_of("10.0.0.1", "192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(client_of("::ffff:10.0.0.1", "192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(client_of("fd00::1", "2001:db8::1"), "2001:db8::1");
}

TEST(ClientAddress, IsWhatTheLastTrustedProxySaw) {
  EXPECT_EQ(client_of("10.0.0.1", "1.1.1.1, 192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(client_of("10.0.0.1", "1.1.1.1, 192.0.2.1,10.1.1.1 , 10.2.2.2"), "192.0.2.1");
  EXPECT_EQ(client_of("10.0.0.1", "10.3.3.3, 10.2.2.2"), "10.3.3.3");
}

TEST(ClientAddress, IsReadWithAPortAndNotWhenItIsNone) {
  EXPECT_EQ(client_of("10.0.0.1", "192.0.2.1:4711"), "192.0.2.1");
  EXPECT_EQ(client_of("10.0.0.1", "[2001:db8::1]:4711"), "2001:db8::1");
  for (const char* bad : {"unknown", "", ",", "1.2.3", "192.0.2.1 x", "[", "192.0.2.1, _hidden"}) {
    EXPECT_EQ(client_of("10.0.0.1", bad), "10.0.0.1") << bad;
  }
}

TEST(AddressAccount, IsTheAddressOrTheSubscribersNetwork) {
  EXPECT_EQ(address_account(make_address("203.0.113.5")), "203.0.113.5");
  EXPECT_EQ(address_account(make_address("::ffff:203.0.113.5")), "203.0.113.5");
  EXPECT_EQ(address_account(make_address("2001:db8:1:2:3:4:5:6")), "2001:db8:1:2::/64");
  EXPECT_EQ(address_account(make_address("127.0.0.1")), "");
  EXPECT_EQ(address_account(make_address("::1")), "");
}

}  // namespace
}  // namespace tutti
