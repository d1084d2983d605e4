#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "config/config_loader.hpp"
#include "config/options.hpp"
#include "net/client_address.hpp"
#include "net/credentials.hpp"
#include "net/http_request.hpp"
#include "net/proxy_header.hpp"
#include "proto/dialects.hpp"
#include "proto/subscription.hpp"
#include "tests/config/broken_rule.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/net/test_token.hpp"

namespace tutti::fuzz {
namespace {

namespace http = boost::beast::http;
using boost::asio::ip::address;

/// What is read as a file, without a disk.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view text) : descriptor_(::memfd_create("fuzz", 0)) {
    require(descriptor_ >= 0 && ::write(descriptor_, text.data(), text.size()) == std::ssize(text),
            "there is memory for a file");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  [[nodiscard]] std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

/// Whether it can stand in the header of an answer.
bool is_field_value(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

void check_fields(const proto::Headers& headers) {
  for (const auto& [name, value] : headers) {
    require(!name.empty() && is_field_value(name) && is_field_value(value), "a header is one line");
  }
}

struct ProxyOutcome {
  ProxyHeaderReader::State state = ProxyHeaderReader::State::more;
  std::string client;
  size_t used = 0;
  bool operator==(const ProxyOutcome&) const = default;
};

ProxyOutcome read_proxy_header(std::string_view bytes, size_t most) {
  ProxyHeaderReader reader;
  ProxyOutcome outcome;
  while (outcome.state == ProxyHeaderReader::State::more && outcome.used < bytes.size()) {
    require(reader.wanted() >= 1 && reader.wanted() <= ProxyHeaderReader::most_wanted,
            "so much is wanted at a time");
    const auto piece = bytes.substr(outcome.used, std::min(reader.wanted(), most));
    outcome.used += piece.size();
    outcome.state = reader.take(piece);
  }
  require(outcome.used <= ProxyHeaderReader::most_wanted, "a header is no longer than that");
  if (outcome.state == ProxyHeaderReader::State::done && reader.client()) {
    outcome.client = reader.client()->to_string();
    require(!outcome.client.empty(), "a client has an address");
  }
  return outcome;
}

constexpr std::string_view secret = "a secret that is long enough: 32";

const JwtVerifier& verifier() {
  static const JwtVerifier loaded = [] {
    const MemoryFile keys(secret);
    return JwtVerifier::load(keys.path(), {.audience = "tutti", .issuer = {}});
  }();
  return loaded;
}

void check_token(const std::string& token) {
  const auto now = std::chrono::system_clock::time_point(std::chrono::seconds(1700000100));
  const auto client = verifier().verify(token, now);
  if (!client) {
    require(client.error().code == "unauthorized" && client.error().message.size() < 300,
            "a refusal repeats nothing of the token");
    return;
  }
  require(!client->subject.empty() && is_field_value(client->subject), "a subject is one word");
}

void check_handshake(const proto::DialectEntry& dialect, const HttpFields& fields, const Target& target) {
  const auto acceptance = dialect.accept(handshake_of(fields, target));
  if (const auto* const refused = std::get_if<proto::Refused>(&acceptance)) {
    require(refused->status >= 400 && refused->body.size() < 4096, "a refusal is short");
    return check_fields(refused->headers);
  }
  const auto& accepted = std::get<proto::Accepted>(acceptance);
  require(accepted.dialect != nullptr && is_field_value(accepted.subprotocol), "a session is answered");
  check_fields(accepted.headers);
}

void check_request(const http::request<http::empty_body>& request) {
  const Target target = split_target({request.target().data(), request.target().size()});
  require(target.path.find('?') == std::string_view::npos, "a path ends where its query begins");
  const CredentialHeaders credentials = credential_headers(request);
  if (const auto key = presented_key(credentials)) require(!key->empty(), "a key is not empty");
  (void)Credentials(std::vector<ApiKey>{{.name = "a", .digest = {}, .terms = {}}}).admit(credentials, {});
  const std::string_view subprotocol = key_subprotocol(credentials.websocket_protocol);
  require(is_field_value(subprotocol), "a subprotocol can be chosen");
  const auto proxies = std::vector{AddressRange::parse("10.0.0.0/8").value()};
  const address stranger = boost::asio::ip::make_address("192.0.2.1");
  require(client_address(stranger, forwarded_for(request), proxies) == stranger,
          "a stranger is not believed");
  (void)address_account(
      client_address(boost::asio::ip::make_address("10.0.0.1"), forwarded_for(request), proxies));
  const std::string_view origin = header(request, http::field::origin);
  const std::string_view host = header(request, http::field::host);
  require(may_use(origin, host, {}) == is_same_origin(origin, host), "nobody else is allowed");
  require(may_use(origin, host, {"*"}), "everybody is allowed");
  check_fields(cors_headers(request));
  (void)is_preflight({request.method_string().data(), request.method_string().size()}, request);
  (void)proto::watched_stream(target.path);
  (void)proto::parse_event_place(header(request, http::field::user_agent));
  if (const auto* const dialect = proto::find_dialect_at(target.path)) {
    check_handshake(*dialect, request, target);
  }
}

}  // namespace

void run_proxy_header(std::span<const std::byte> input) {
  const std::string_view bytes = text_of(input);
  const ProxyOutcome whole = read_proxy_header(bytes, ProxyHeaderReader::most_wanted);
  for (const size_t most : {1, 7}) {
    require(read_proxy_header(bytes, most) == whole, "it does not matter in which pieces it comes");
  }
}

/// A token as it came, and one whose header and claims are the lines of the input, rightly signed.
void run_jwt(std::span<const std::byte> input) {
  std::string_view text = text_of(input);
  check_token(std::string(text));
  const std::string_view protected_header = take_line(text);
  check_token(sign_with_secret(secret, protected_header, text));
}

void run_jwt_keys(std::span<const std::byte> input) {
  const MemoryFile file(text_of(input));
  try {
    require(JwtVerifier::load(file.path(), {.audience = "tutti", .issuer = {}}).size() > 0, "there are keys");
  } catch (const SetupError& error) {
    require(std::string_view(error.what()).size() < 2000, "an error does not quote all of its input");
  }
}

/// The header of a request, in pieces of as many bytes as the first one says, and what is read from it.
void run_http_request(std::span<const std::byte> input) {
  Choices choices(input);
  const size_t piece = choices.byte() + size_t{1};
  const std::string_view text = text_of(choices.rest());
  http::request_parser<http::empty_body> parser;
  parser.header_limit(4096);
  parser.body_limit(boost::none);
  std::string read;
  size_t at = 0;
  while (!parser.is_header_done() && at < text.size()) {
    read += text.substr(at, piece);
    at += piece;
    boost::system::error_code error;
    const size_t used = parser.put(boost::asio::buffer(read), error);
    if (error && error != http::error::need_more) return;
    read.erase(0, used);
    require(read.size() <= 4096 + piece, "a header is no longer than its limit");
  }
  if (parser.is_header_done()) check_request(parser.get());
}

/// A configuration that is taken says the same when it is written and read again.
void run_config_file(std::span<const std::byte> input) {
  const auto load = [](std::string_view text) {
    const MemoryFile file(text);
    return load_config({.flags = {}, .environment = {}, .file = file.path()});
  };
  std::string written;
  try {
    written = render_toml(load(text_of(input)));
  } catch (const SetupError& error) {
    require(std::string_view(error.what()).size() < 2000, "an error does not quote all of its input");
    return;
  }
  require(render_toml(load(written)) == written, "what was taken is taken again");
}

void run_api_keys(std::span<const std::byte> input) {
  const MemoryFile file(text_of(input));
  try {
    std::string written;
    for (const ApiKey& key : load_api_keys(file.path())) {
      require(is_api_key_name(key.name), "a key has a name");
      written += api_key_line(key) + "\n";
    }
    const MemoryFile again(written);
    require(!load_api_keys(again.path()).empty(), "what was taken is taken again");
  } catch (const SetupError& error) {
    require(std::string_view(error.what()).size() < 2000, "an error does not quote all of its input");
  }
}

}  // namespace tutti::fuzz
