#include "net/client_address.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace tutti {
namespace {

using boost::asio::ip::address;

/// A v4-mapped address is an IPv4 address: that is how a socket for both shows one.
address plain(const address& any) {
  if (!any.is_v6() || !any.to_v6().is_v4_mapped()) return any;
  return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, any.to_v6());
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

/// "192.0.2.1", "192.0.2.1:5000", "2001:db8::1" or "[2001:db8::1]:5000".
std::optional<address> parse_forwarded(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('[')) {
    text = text.substr(1, text.find(']') - 1);
  } else if (std::ranges::count(text, ':') == 1) {
    text = text.substr(0, text.find(':'));
  }
  boost::system::error_code error;
  const address parsed = boost::asio::ip::make_address(text, error);
  return error ? std::nullopt : std::optional(plain(parsed));
}

}  // namespace

bool is_trusted(const address& one, const std::vector<AddressRange>& proxies) {
  return std::ranges::any_of(proxies, [&](const AddressRange& range) { return range.contains(one); });
}

address client_address(const address& peer, std::string_view forwarded_for,
                       const std::vector<AddressRange>& proxies) {
  address known = plain(peer);
  while (is_trusted(known, proxies) && !forwarded_for.empty()) {
    const size_t comma = forwarded_for.rfind(',');
    const bool is_first = comma == std::string_view::npos;
    const auto before = parse_forwarded(is_first ? forwarded_for : forwarded_for.substr(comma + 1));
    if (!before) break;
    known = *before;
    forwarded_for = is_first ? std::string_view() : forwarded_for.substr(0, comma);
  }
  return known;
}

std::string address_account(const address& one) {
  const address known = plain(one);
  if (known.is_loopback()) return {};
  if (known.is_v4()) return known.to_string();
  auto bytes = known.to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), 0);
  return boost::asio::ip::address_v6(bytes).to_string() + "/64";
}

}  // namespace tutti
