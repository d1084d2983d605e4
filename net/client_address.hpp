#pragma once

#include <boost/asio/ip/address.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "net/address_range.hpp"

namespace tutti {

/// Whether an address is that of a proxy whose word is taken for who its clients are.
[[nodiscard]] bool is_trusted(const boost::asio::ip::address& address,
                              const std::vector<AddressRange>& proxies);

/// Who a request comes from: `peer`, or, as far as `proxies` can be trusted for it, who X-Forwarded-For
/// names. Each proxy has added the address of its own peer at the end; what stands before one that is not
/// trusted could be anything.
[[nodiscard]] boost::asio::ip::address client_address(const boost::asio::ip::address& peer,
                                                      std::string_view forwarded_for,
                                                      const std::vector<AddressRange>& proxies);

/// What a limit for an address counts by: an IPv4 address, or the /64 of an IPv6 one, which a subscriber has
/// to himself. Empty for this machine, which has no limit.
[[nodiscard]] std::string address_account(const boost::asio::ip::address& address);

}  // namespace tutti
