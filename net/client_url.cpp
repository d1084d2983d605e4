#include "net/client_url.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "proto/query.hpp"

namespace tutti {
namespace {

tl::unexpected<Error> bad_url(std::string_view url, std::string_view why) {
  return fail("bad_url",
              fmt::format("\"{}\": {}; accepted is ws://HOST[:PORT][/PATH][?PARAMETERS] or wss://, such as "
                          "ws://127.0.0.1:8080",
                          url, why));
}

bool is_port(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() && port != 0;
}

// What would end the request line, or a header, early.
bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

}  // namespace

std::string ClientUrl::authority() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Result<ClientUrl> parse_client_url(std::string_view url) {
  if (!is_printable(url)) return bad_url(url, "it has a space or a character beyond ASCII");
  const bool secure = url.starts_with("wss://");
  if (!secure && !url.starts_with("ws://")) return bad_url(url, "it does not start with ws:// or wss://");
  const std::string_view rest = url.substr(url.find("//") + 2);
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  const std::string_view target = rest.substr(authority.size());
  const size_t bracket = authority.rfind(']');
  const size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  std::string_view host = authority.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string_view default_port = secure ? "443" : "80";
  const std::string_view port = colon == std::string_view::npos ? default_port : authority.substr(colon + 1);
  if (host.empty() || host.find_first_of("[]@") != std::string_view::npos) {
    return bad_url(url, "it names no host");
  }
  if (!is_port(port)) return bad_url(url, "its port is not a number from 1 to 65535");
  return ClientUrl{std::string(host), std::string(port), std::string(target.substr(0, target.find('#'))),
                   secure};
}

Result<ClientUrl> with_defaults(ClientUrl url,
                                std::initializer_list<std::pair<std::string_view, std::string>> parameters) {
  const size_t mark = url.target.find('?');
  std::string path = url.target.substr(0, mark);
  std::string query = mark == std::string::npos ? std::string() : url.target.substr(mark + 1);
  const auto given = proto::parse_query(query);
  if (!given) return tl::unexpected(given.error());
  for (const auto& [name, value] : parameters) {
    const auto has_name = [wanted = name](const auto& parameter) { return parameter.first == wanted; };
    if (std::ranges::any_of(*given, has_name)) continue;
    query += fmt::format("{}{}={}", query.empty() ? "" : "&", name, value);
  }
  if (path.empty() || path == "/") path = "/v1/stream";
  url.target = query.empty() ? path : path + "?" + query;
  return url;
}

}  // namespace tutti
