#pragma once

#include <boost/beast/http/field.hpp>
#include <boost/beast/http/fields.hpp>

#include <chrono>
#include <string>
#include <string_view>

#include "net/credentials.hpp"
#include "net/origin.hpp"
#include "net/routes.hpp"
#include "net/session_id.hpp"
#include "proto/dialect.hpp"

namespace tutti {

// What is read from a request's header. Views are of the fields. Here and not in a source, because few of
// those may include Beast.

using HttpFields = boost::beast::http::fields;

[[nodiscard]] inline std::string_view header(const HttpFields& fields, boost::beast::http::field name) {
  const auto value = fields[name];
  return {value.data(), value.size()};
}

[[nodiscard]] inline CredentialHeaders credential_headers(const HttpFields& fields) {
  const auto x_api_key = fields["X-API-KEY"];
  return {.authorization = header(fields, boost::beast::http::field::authorization),
          .x_api_key = {x_api_key.data(), x_api_key.size()},
          .websocket_protocol = header(fields, boost::beast::http::field::sec_websocket_protocol)};
}

[[nodiscard]] inline proto::Handshake handshake_of(const HttpFields& fields, const Target& target) {
  proto::Handshake handshake{.session = make_session_id(),
                             .path = std::string(target.path),
                             .query = std::string(target.query),
                             .headers = {},
                             .time = std::chrono::system_clock::now()};
  for (const auto& each : fields) {
    handshake.headers.emplace_back(std::string(each.name_string()), std::string(each.value()));
  }
  return handshake;
}

/// All X-Forwarded-For headers, as if they were one (RFC 9110, section 5.3).
[[nodiscard]] inline std::string forwarded_for(const HttpFields& fields) {
  std::string all;
  const auto [begin, end] = fields.equal_range("X-Forwarded-For");
  for (auto each = begin; each != end; ++each) {
    if (!all.empty()) all += ',';
    all.append(each->value().data(), each->value().size());
  }
  return all;
}

/// What lets a page of another origin read the answer: of the request's Origin, empty when it came from the
/// server's own pages or has none.
[[nodiscard]] inline proto::Headers cors_headers(const HttpFields& fields) {
  const std::string_view origin = header(fields, boost::beast::http::field::origin);
  if (origin.empty() || is_same_origin(origin, header(fields, boost::beast::http::field::host))) return {};
  return {{"Access-Control-Allow-Origin", std::string(origin)},
          {"Access-Control-Expose-Headers", "Retry-After"},
          {"Vary", "Origin"}};
}

/// What a reply over TLS has, and no other (RFC 6797): for so long browsers ask that host over TLS alone. Not
/// for longer, because it holds for whatever else the host serves.
[[nodiscard]] inline proto::Headers strict_transport_security() {
  return {{"Strict-Transport-Security", "max-age=2592000"}};
}

/// Whether a browser asks before it sends a request of such a page.
[[nodiscard]] inline bool is_preflight(std::string_view method, const HttpFields& fields) {
  return method == "OPTIONS" && !header(fields, boost::beast::http::field::origin).empty() &&
         !header(fields, boost::beast::http::field::access_control_request_method).empty();
}

[[nodiscard]] inline HttpReply preflight_reply() {
  return {
      .status = 204,
      .content_type = {},
      .body = {},
      .headers = {{"Access-Control-Allow-Methods", "GET, POST"},
                  {"Access-Control-Allow-Headers", "Authorization, Content-Type, X-API-KEY, Last-Event-ID"},
                  {"Access-Control-Max-Age", "600"}}};
}

}  // namespace tutti
