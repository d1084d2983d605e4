#include "net/routes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "proto/native.hpp"

namespace tutti {
namespace {

HttpReply plain(unsigned status, std::string body) {
  return {status, "text/plain; charset=utf-8", std::move(body), {}};
}

HttpReply health(const StatusPort&) { return plain(200, "ok\n"); }

HttpReply readiness(const StatusPort& status) {
  return status.ready() ? plain(200, "ready\n") : try_again_later(plain(503, "not ready\n"));
}

HttpReply metrics(const StatusPort& status) {
  return {200, "text/plain; version=0.0.4; charset=utf-8", status.metrics(), {}};
}

HttpReply upgrade_required(std::string_view path, const proto::DialectEntry& dialect) {
  auto reply = error_reply(
      426, "upgrade_required",
      fmt::format("{} is a WebSocket of the {} dialect: connect to ws://HOST{}", path, dialect.name, path));
  reply.headers = {{"Upgrade", "websocket"}, {"Connection", "Upgrade"}};
  return reply;
}

HttpReply models(const StatusPort& status) {
  const ModelInfo model = status.model();
  return {200, "application/json", proto::write_model_list(model.name, model.loaded_at) + "\n", {}};
}

constexpr std::string_view metrics_path = "/metrics";

struct Route {
  std::string_view path;
  HttpReply (*answer)(const StatusPort& status);
  bool is_admin = false;  // for who runs the server
};

constexpr std::array routes = {
    Route{"/healthz", health},
    Route{"/readyz", readiness},
    Route{metrics_path, metrics, true},
    Route{"/v1/models", models},
};

/// What is served at a port, for the path that is not.
HttpReply not_found(Serves serves) {
  if (serves == Serves::admin) {
    return error_reply(404, "not_found",
                       "nothing is served at this path; there are /monitor, /metrics, /healthz, /readyz, "
                       "/v1/models, and POST to /admin/drain and /admin/reload");
  }
  std::vector<std::string_view> paths;
  for (const proto::DialectEntry& dialect : proto::dialects()) paths.push_back(dialect.path);
  return error_reply(
      404, "not_found",
      fmt::format(
          "nothing is served at this path; there are {}, and {}, {}, /v1/streams/ID/events, /v1/models, "
          "/healthz and /readyz{}",
          serves == Serves::everything ? "the pages / and /monitor" : "the page /", fmt::join(paths, ", "),
          transcriptions_path,
          serves == Serves::everything ? ", and /metrics" : "; measurements are at the admin port"));
}

}  // namespace

Target split_target(std::string_view target) {
  target = target.substr(0, target.find('#'));
  const size_t question = target.find('?');
  if (question == std::string_view::npos) return {target, {}};
  return {target.substr(0, question), target.substr(question + 1)};
}

HttpReply method_not_allowed(std::string message) {
  auto reply = error_reply(405, "method_not_allowed", std::move(message));
  reply.headers = {{"Allow", "GET, HEAD"}};
  return reply;
}

bool is_public(std::string_view path) { return path == "/healthz" || path == "/readyz"; }

std::optional<AdminCommand> admin_command(std::string_view path) {
  if (path == "/admin/drain") return AdminCommand::drain;
  if (path == "/admin/reload") return AdminCommand::reload;
  return std::nullopt;
}

std::optional<Right> right_for(std::string_view path) {
  return path == metrics_path ? std::optional(Right::metrics) : std::nullopt;
}

HttpReply error_reply(unsigned status, std::string code, std::string message) {
  const proto::ErrorEvent event{{std::move(code), std::move(message)}, true};
  return {status, "application/json", proto::write_event(event, proto::OutputFormat::json) + "\n", {}};
}

HttpReply try_again_later(HttpReply reply) {
  reply.headers.emplace_back("Retry-After", "5");
  return reply;
}

HttpReply api_error_reply(const proto::ApiError& error) {
  return {error.status, "application/json", proto::write_api_error(error) + "\n", {}};
}

HttpReply answer(std::string_view method, std::string_view path, const proto::DialectEntry* dialect,
                 const StatusPort& status, Serves serves) {
  if (path == transcriptions_path && serves != Serves::admin) {
    auto reply = api_error_reply({.status = 405,
                                  .code = "method_not_allowed",
                                  .message = fmt::format("{} answers POST, with a file to transcribe", path),
                                  .param = {}});
    reply.headers = {{"Allow", "POST"}};
    return reply;
  }
  if (serves == Serves::admin && admin_command(path)) {
    auto reply = error_reply(405, "method_not_allowed", fmt::format("{} answers POST", path));
    reply.headers = {{"Allow", "POST"}};
    return reply;
  }
  const auto* const route = std::ranges::find(routes, path, &Route::path);
  const bool is_served = route != routes.end() && !(route->is_admin && serves == Serves::clients);
  if (!is_served && dialect == nullptr) return not_found(serves);
  if (method != "GET" && method != "HEAD") {
    return method_not_allowed(fmt::format("{} answers GET and HEAD", path));
  }
  return dialect != nullptr ? upgrade_required(path, *dialect) : route->answer(status);
}

}  // namespace tutti
