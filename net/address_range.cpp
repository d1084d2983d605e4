#include "net/address_range.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace tutti {
namespace {

using boost::asio::ip::address;
using boost::asio::ip::address_v6;

constexpr int v4_prefix_bits = 96;

address_v6 widened(const address& any) {
  return any.is_v4() ? boost::asio::ip::make_address_v6(boost::asio::ip::v4_mapped, any.to_v4())
                     : any.to_v6();
}

std::vector<AddressRange> ranges_of(std::initializer_list<std::string_view> texts) {
  std::vector<AddressRange> ranges;
  for (const std::string_view text : texts) ranges.push_back(AddressRange::parse(text).value());
  return ranges;
}

bool any_contains(const std::vector<AddressRange>& ranges, const address& one) {
  return std::ranges::any_of(ranges, [&](const AddressRange& range) { return range.contains(one); });
}

}  // namespace

Result<AddressRange> AddressRange::parse(std::string_view text) {
  const auto bad = [&] {
    return fail(
        "bad_address_range",
        fmt::format("\"{}\" is no range of addresses; accepted is 10.0.0.0/8, fd00::/8 or one address",
                    text));
  };
  const size_t slash = text.find('/');
  boost::system::error_code error;
  const address first = boost::asio::ip::make_address(text.substr(0, slash), error);
  if (error || (first.is_v6() && first.to_v6().scope_id() != 0)) return bad();
  const int width = first.is_v4() ? 32 : 128;
  int bits = width;
  if (slash != std::string_view::npos) {
    const std::string_view digits = text.substr(slash + 1);
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    if (failure != std::errc{} || end != digits.data() + digits.size() || bits < 0 || bits > width)
      return bad();
  }
  return AddressRange(widened(first), bits + (first.is_v4() ? v4_prefix_bits : 0));
}

bool AddressRange::contains(const address& one) const {
  const auto bytes = widened(one).to_bytes();
  const auto mine = first_.to_bytes();
  const auto whole = static_cast<size_t>(bits_ / 8);
  if (!std::equal(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(whole), bytes.begin()))
    return false;
  const int rest = bits_ % 8;
  return rest == 0 || (mine[whole] ^ bytes[whole]) >> (8 - rest) == 0;
}

bool is_public_address(const address& one) {
  static const std::vector<AddressRange> special_v4 =
      ranges_of({"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
                 "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
                 "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"});
  // Of IPv6 only 2000::/3 is given out; in it, what is for documentation, protocols and 6to4.
  static const std::vector<AddressRange> global_v6 = ranges_of({"2000::/3"});
  static const std::vector<AddressRange> special_v6 =
      ranges_of({"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"});
  const address_v6 wide = widened(one);
  if (wide.is_v4_mapped()) return !any_contains(special_v4, one);
  return any_contains(global_v6, one) && !any_contains(special_v6, one);
}

}  // namespace tutti
