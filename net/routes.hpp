#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/ports.hpp"
#include "config/client_terms.hpp"
#include "proto/dialects.hpp"
#include "proto/transcription.hpp"

namespace tutti {

/// Where a file is transcribed.
inline constexpr std::string_view transcriptions_path = "/v1/audio/transcriptions";

/// What a port is for. Where there is an admin port, what is for who runs the server is there alone.
enum class Serves { everything, clients, admin };

/// What AdminPort does.
enum class AdminCommand { drain, reload };
/// POST /admin/drain and /admin/reload.
[[nodiscard]] std::optional<AdminCommand> admin_command(std::string_view path);

/// What a client must be allowed to read a path; nothing = that every client may.
[[nodiscard]] std::optional<Right> right_for(std::string_view path);

struct HttpReply {
  unsigned status = 200;
  std::string content_type;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

/// A request target in origin form, "/path?query".
struct Target {
  std::string_view path;
  std::string_view query;
};
[[nodiscard]] Target split_target(std::string_view target);

/// A JSON error in the shape of the native dialect's error event.
[[nodiscard]] HttpReply error_reply(unsigned status, std::string code, std::string message);

/// The reply with the time after which it is worth while to ask again.
[[nodiscard]] HttpReply try_again_later(HttpReply reply);

/// The answer to a method other than GET and HEAD where only these are served.
[[nodiscard]] HttpReply method_not_allowed(std::string message);

/// Whether a path is for whoever watches the process: it needs no API key.
[[nodiscard]] bool is_public(std::string_view path);

/// A JSON error in the shape of the transcription dialect.
[[nodiscard]] HttpReply api_error_reply(const proto::ApiError& error);

/// The answer to a request that is not a WebSocket upgrade, nor for a page, nor a file to transcribe.
/// `dialect` is what is spoken at the path; null = nothing.
[[nodiscard]] HttpReply answer(std::string_view method, std::string_view path,
                               const proto::DialectEntry* dialect, const StatusPort& status, Serves serves);

}  // namespace tutti
