#pragma once

#include <boost/asio/ip/address.hpp>
#include <string_view>

#include "config/result.hpp"

namespace tutti {

/// Addresses that begin with the same bits. IPv4 addresses are held as IPv6's ::ffff:a.b.c.d.
class AddressRange {
 public:
  /// "10.0.0.0/8", "fd00::/8", or one address. Fails with "bad_address_range".
  [[nodiscard]] static Result<AddressRange> parse(std::string_view text);

  [[nodiscard]] bool contains(const boost::asio::ip::address& address) const;

 private:
  AddressRange(const boost::asio::ip::address_v6& first, int bits) : first_(first), bits_(bits) {}

  boost::asio::ip::address_v6 first_;
  int bits_;
};

/// Whether an address is one of the public Internet's: not private, loopback, link-local, shared, reserved,
/// multicast or made of one of those by translation (the special-purpose registries of IANA, RFC 6890).
[[nodiscard]] bool is_public_address(const boost::asio::ip::address& address);

}  // namespace tutti
