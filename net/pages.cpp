#include "net/pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tutti {
namespace {

constexpr std::string_view assets = "/assets/";

// Nothing of another origin, and nothing inline: what a transcript says cannot become a script.
constexpr const char* content_security_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

std::string_view content_type(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> types{{
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".mjs", "text/javascript; charset=utf-8"},
      {".svg", "image/svg+xml"},
  }};
  for (const auto& [extension, type] : types) {
    if (name.ends_with(extension)) return type;
  }
  return "application/octet-stream";
}

std::string_view file_at(std::string_view path, Serves serves) {
  if (path == "/") return serves == Serves::admin ? "" : "index.html";
  if (path == "/monitor") return serves == Serves::clients ? "" : "monitor.html";
  if (path.starts_with(assets)) return path.substr(assets.size());
  return {};
}

/// Whether a list of entity tags has this one, by weak comparison: "W/" is of no account.
bool has_tag(std::string_view tags, std::string_view tag) {
  if (tags == "*") return true;
  for (size_t at = tags.find(tag); at != std::string_view::npos; at = tags.find(tag, at + 1)) {
    const bool begins = at == 0 || tags[at - 1] == ' ' || tags[at - 1] == ',' || tags[at - 1] == '/';
    const size_t end = at + tag.size();
    if (begins && (end == tags.size() || tags[end] == ' ' || tags[end] == ',')) return true;
  }
  return false;
}

}  // namespace

const WebFile* find_page(std::string_view path, Serves serves) {
  const std::string_view name = file_at(path, serves);
  const auto files = web_files();
  const auto file = std::ranges::find(files, name, &WebFile::name);
  return file == files.end() ? nullptr : &*file;
}

HttpReply answer_page(const WebFile& page, std::string_view method, std::string_view if_none_match) {
  if (method != "GET" && method != "HEAD") return method_not_allowed("a page answers GET and HEAD");
  const std::string tag = fmt::format("\"{}\"", page.digest.substr(0, 32));
  HttpReply reply{200, std::string(content_type(page.name)), {}, {}};
  reply.headers = {
      {"ETag", tag},
      {"Cache-Control", "no-cache"},  // kept, but asked for again: another version of the server has others
      {"Content-Security-Policy", content_security_policy},
      {"Permissions-Policy", "microphone=(self), camera=(), display-capture=(), geolocation=()"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Referrer-Policy", "no-referrer"},
      {"X-Content-Type-Options", "nosniff"},
  };
  if (has_tag(if_none_match, tag)) {
    reply.status = 304;
  } else {
    reply.body = page.content;
  }
  return reply;
}

}  // namespace tutti
