#include "net/credentials.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <stdexcept>

#include "config/sha256_stream.hpp"

namespace tutti {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

/// The schemes of HTTP authentication have no case (RFC 9110, section 11.1).
bool is_scheme(std::string_view given, std::string_view scheme) {
  return std::ranges::equal(given, scheme, {}, [](unsigned char c) { return std::tolower(c); });
}

std::string_view from_authorization(std::string_view header) {
  header = trimmed(header);
  const std::string_view scheme = header.substr(0, header.find(' '));
  if (!is_scheme(scheme, "bearer") && !is_scheme(scheme, "token")) return {};
  return trimmed(header.substr(scheme.size()));
}

/// Takes the first of a list of subprotocols out of it.
std::string_view take_first(std::string_view& list) {
  const std::string_view first = list.substr(0, list.find(','));
  list.remove_prefix(std::min(first.size() + 1, list.size()));
  return trimmed(first);
}

std::string_view from_websocket_protocol(std::string_view header) {
  if (!key_subprotocol(header).empty()) {
    take_first(header);
    return take_first(header);
  }
  constexpr std::string_view openai_prefix = "openai-insecure-api-key.";
  while (!header.empty()) {
    const std::string_view offered = take_first(header);
    if (offered.starts_with(openai_prefix)) return offered.substr(openai_prefix.size());
  }
  return {};
}

/// Whether it has the three parts of a signed token (RFC 7515, section 7.1).
bool looks_like_token(std::string_view key) { return std::ranges::count(key, '.') == 2; }

}  // namespace

std::string_view key_subprotocol(std::string_view websocket_protocol) {
  const std::string_view first = take_first(websocket_protocol);
  return first == "token" || first == "bearer" ? first : std::string_view();
}

std::optional<std::string_view> presented_key(const CredentialHeaders& headers) {
  for (const std::string_view key : {from_authorization(headers.authorization), trimmed(headers.x_api_key),
                                     from_websocket_protocol(headers.websocket_protocol)}) {
    if (!key.empty()) return key;
  }
  return std::nullopt;
}

Result<Client> Credentials::admit(const CredentialHeaders& headers,
                                  std::chrono::system_clock::time_point now) const {
  if (!required()) return Client{.name = {}, .terms = {.allowed = all_rights(), .limits = {}}};
  const auto presented = presented_key(headers);
  if (!presented) {
    return fail(
        "unauthorized",
        "this server needs an API key: send the header Authorization: Bearer KEY or X-API-KEY: KEY, or "
        "the WebSocket subprotocols token, KEY or bearer, KEY");
  }
  const Sha256 digest = api_key_digest(*presented);
  const ApiKey* admitted = nullptr;
  for (const ApiKey& key : keys_) {
    if (CRYPTO_memcmp(key.digest.data(), digest.data(), digest.size()) == 0) admitted = &key;
  }
  if (admitted != nullptr) return Client{admitted->name, admitted->terms};
  if (!tokens_ || !looks_like_token(*presented))
    return fail("unauthorized", "the API key is none of this server's");
  auto token = tokens_->verify(*presented, now);
  if (!token) return tl::unexpected(std::move(token.error()));
  // No key's name has a colon.
  return Client{"jwt:" + token->subject, token->terms};
}

Sha256 api_key_digest(std::string_view key) {
  Sha256Stream stream;
  stream.add(std::as_bytes(std::span(key)));
  return stream.finish();
}

std::string generate_api_key() {
  std::array<unsigned char, 32> random{};
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) {
    throw std::runtime_error("the system gives no random numbers");
  }
  return "tutti_" + to_hex(random);
}

}  // namespace tutti
