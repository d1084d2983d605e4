#include "net/jwt.hpp"

#include <cjose/header.h>
#include <cjose/jws.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "net/jwt_keys.hpp"
#include "proto/json_message.hpp"

namespace tutti {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;
using Seconds = std::chrono::duration<double>;

constexpr Seconds clock_difference{30};
constexpr size_t most_claim_bytes = 16U << 10U;
constexpr size_t longest_subject = 128;

struct JwsDeleter {
  void operator()(cjose_jws_t* token) const { cjose_jws_release(token); }
};
using Jws = std::unique_ptr<cjose_jws_t, JwsDeleter>;

/// Whether it has the three parts of a signed token (RFC 7515, section 7.1).
bool is_compact(std::string_view token) {
  for (int dots = 0; dots < 2; ++dots) {
    const size_t dot = token.find('.');
    if (dot == std::string_view::npos || !is_base64url(token.substr(0, dot))) return false;
    token.remove_prefix(dot + 1);
  }
  return is_base64url(token);
}

auto refuse(std::string_view why) { return fail("unauthorized", fmt::format("the token {}", why)); }

std::string_view header_text(cjose_header_t* header, const char* name) {
  const char* const text = cjose_header_get(header, name, nullptr);
  return text == nullptr ? std::string_view() : std::string_view(text);
}

bool has_header(cjose_header_t* header, const char* name) {
  char* const json = cjose_header_get_raw(header, name, nullptr);
  std::free(json);
  return json != nullptr;
}

/// Whether a key of the algorithm that the token names, and of its name if it has one, has signed it.
bool is_signed(cjose_jws_t* token, const std::vector<JwtKey>& keys) {
  cjose_header_t* const header = cjose_jws_get_protected(token);
  // What must be understood and is not makes a token invalid: RFC 7515, section 4.1.11.
  if (header == nullptr || has_header(header, "crit")) return false;
  const std::string_view algorithm = header_text(header, CJOSE_HDR_ALG);
  const std::string_view id = header_text(header, CJOSE_HDR_KID);
  return std::ranges::any_of(keys, [&](const JwtKey& key) {
    if (key.algorithm != algorithm || (!id.empty() && !key.id.empty() && key.id != id)) return false;
    return cjose_jws_verify(token, key.key.get(), nullptr);
  });
}

/// `aud` is one text or a list of them.
bool has_audience(const object& claims, std::string_view audience) {
  if (const auto one = proto::string_in(claims, "aud")) return *one == audience;
  const auto several = proto::array_in(claims, "aud");
  if (!several) return false;
  for (const element each : *several) {
    std::string_view text;
    if (each.get(text) == simdjson::SUCCESS && text == audience) return true;
  }
  return false;
}

std::optional<Seconds> time_in(const object& claims, std::string_view name) {
  const auto number = proto::number_in(claims, name);
  return number ? std::optional(Seconds(*number)) : std::nullopt;
}

bool is_subject(std::string_view text) {
  return !text.empty() && text.size() <= longest_subject &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

/// Words that are no right of this server's are somebody else's.
Rights rights_of(std::string_view scope) {
  Rights rights;
  while (!scope.empty()) {
    const std::string_view word = scope.substr(0, scope.find(' '));
    scope.remove_prefix(std::min(word.size() + 1, scope.size()));
    if (const auto right = parse_right(word)) rights.add(*right);
  }
  return rights;
}

Result<ClientTerms> terms_of(const object& claims) {
  ClientTerms terms{.allowed = Rights(Right::stream, Right::upload), .limits = {}};
  if (const auto scope = proto::string_in(claims, "scope")) terms.allowed = rights_of(*scope);
  for (const LimitField& field : limit_fields) {
    element given;
    if (claims[field.name].get(given) != simdjson::SUCCESS) continue;
    const auto number = proto::integer_in(claims, field.name);
    if (!number || *number < 0 || *number > largest_limit) {
      return refuse(
          fmt::format("has a {} that is not a whole number from 0 to {}", field.name, largest_limit));
    }
    terms.limits.*field.value = static_cast<int>(*number);
  }
  return terms;
}

Result<JwtClient> client_of(const object& claims, const JwtRules& rules, Seconds now) {
  const auto expiry = time_in(claims, "exp");
  if (!expiry) return refuse("has no exp: it must say until when it is valid");
  if (now >= *expiry + clock_difference) return refuse("has expired");
  element not_before;
  if (claims["nbf"].get(not_before) == simdjson::SUCCESS) {
    const auto begin = time_in(claims, "nbf");
    if (!begin || now + clock_difference < *begin) return refuse("is not valid yet");
  }
  if (!has_audience(claims, rules.audience)) {
    return refuse(fmt::format("is not for this server: its aud must have \"{}\"", rules.audience));
  }
  if (!rules.issuer.empty() && proto::string_in(claims, "iss") != rules.issuer) {
    return refuse(fmt::format("is not of the issuer \"{}\"", rules.issuer));
  }
  const auto subject = proto::string_in(claims, "sub");
  if (!subject || !is_subject(*subject)) {
    return refuse("has no sub of up to 128 printable ASCII characters, which says whose it is");
  }
  auto terms = terms_of(claims);
  if (!terms) return tl::unexpected(std::move(terms.error()));
  return JwtClient{.subject = std::string(*subject), .terms = *terms};
}

}  // namespace

struct JwtVerifier::Keys {
  std::vector<JwtKey> all;
};

JwtVerifier::JwtVerifier(std::unique_ptr<Keys> keys, JwtRules rules)
    : keys_(std::move(keys)), rules_(std::move(rules)) {}
JwtVerifier::JwtVerifier(JwtVerifier&& other) noexcept = default;
JwtVerifier& JwtVerifier::operator=(JwtVerifier&& other) noexcept = default;
JwtVerifier::~JwtVerifier() = default;

JwtVerifier JwtVerifier::load(const std::string& path, JwtRules rules) {
  return {std::make_unique<Keys>(Keys{load_jwt_keys(path)}), std::move(rules)};
}

size_t JwtVerifier::size() const { return keys_->all.size(); }

Result<JwtClient> JwtVerifier::verify(std::string_view token,
                                      std::chrono::system_clock::time_point now) const {
  if (!is_compact(token)) return refuse("is not a signed JWT");
  const Jws jws(cjose_jws_import(token.data(), token.size(), nullptr));
  if (!jws) return refuse("is not a signed JWT");
  if (!is_signed(jws.get(), keys_->all)) return refuse("is not signed with a key of this server's");
  uint8_t* content = nullptr;
  size_t size = 0;
  if (!cjose_jws_get_plaintext(jws.get(), &content, &size, nullptr)) return refuse("has no claims");
  const auto claims =
      proto::JsonMessage::parse({reinterpret_cast<const char*>(content), size}, most_claim_bytes);
  if (!claims) return refuse("has claims that are not a JSON object");
  return client_of(claims->object(), rules_, now.time_since_epoch());
}

}  // namespace tutti
