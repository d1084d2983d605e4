#include "net/proxy_header.hpp"

#include <algorithm>
#include <cstddef>

namespace tutti {
namespace {

using boost::asio::ip::address;

// Sections 2.1 and 2.2 of proxy-protocol.txt.
constexpr std::string_view text_signature = "PROXY ";
constexpr size_t longest_text = 107;
constexpr std::string_view binary_signature("\r\n\r\n\0\r\nQUIT\n", 12);
constexpr size_t binary_begin_bytes = 16;
// Addresses, and more that a proxy may add about the connection.
constexpr size_t longest_rest = 4096;

unsigned byte_at(std::string_view bytes, size_t i) { return static_cast<unsigned char>(bytes[i]); }

template <class Address>
Address address_at(std::string_view bytes, size_t i) {
  typename Address::bytes_type raw;
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(i), raw.size(), raw.begin());
  return Address(raw);
}

}  // namespace

ProxyHeaderReader::State ProxyHeaderReader::more(size_t bytes) {
  wanted_ = bytes;
  return State::more;
}

ProxyHeaderReader::State ProxyHeaderReader::take(std::string_view bytes) {
  header_ += bytes;
  if (bytes.size() < wanted_) return more(wanted_ - bytes.size());
  if (header_.starts_with(text_signature)) return read_text();
  if (header_.starts_with(binary_signature)) return read_binary();
  return State::bad;
}

ProxyHeaderReader::State ProxyHeaderReader::read_text() {
  if (!header_.ends_with("\r\n")) {
    if (header_.size() >= longest_text) return State::bad;
    return more(1);
  }
  std::string_view rest(header_);
  rest.remove_prefix(text_signature.size());
  const std::string_view family = rest.substr(0, rest.find_first_of(" \r"));
  if (family == "UNKNOWN") return State::done;
  if (family != "TCP4" && family != "TCP6") return State::bad;
  rest.remove_prefix(family.size() + 1);
  boost::system::error_code error;
  const address source = boost::asio::ip::make_address(rest.substr(0, rest.find(' ')), error);
  if (error || source.is_v4() != (family == "TCP4")) return State::bad;
  client_ = source;
  return State::done;
}

ProxyHeaderReader::State ProxyHeaderReader::read_binary() {
  if (header_.size() < binary_begin_bytes) return more(binary_begin_bytes - header_.size());
  const size_t rest = byte_at(header_, 14) << 8U | byte_at(header_, 15);
  if (byte_at(header_, 12) >> 4U != 2 || rest > longest_rest) return State::bad;
  const size_t missing = binary_begin_bytes + rest - header_.size();
  return missing > 0 ? more(missing) : read_addresses();
}

ProxyHeaderReader::State ProxyHeaderReader::read_addresses() {
  const unsigned command = byte_at(header_, 12) & 0x0fU;
  if (command == 0) return State::done;  // LOCAL
  if (command != 1) return State::bad;
  const size_t rest = header_.size() - binary_begin_bytes;
  switch (byte_at(header_, 13)) {
    case 0x11:  // TCP over IPv4
      if (rest < 12) return State::bad;
      client_ = address_at<boost::asio::ip::address_v4>(header_, binary_begin_bytes);
      return State::done;
    case 0x21:  // TCP over IPv6
      if (rest < 36) return State::bad;
      client_ = address_at<boost::asio::ip::address_v6>(header_, binary_begin_bytes);
      return State::done;
    default:
      return State::done;  // of a kind that has no address for us
  }
}

}  // namespace tutti
