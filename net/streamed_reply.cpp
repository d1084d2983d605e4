#include "net/streamed_reply.hpp"

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace tutti {

std::string StreamedReply::begin(const ReplyHead& head, std::string_view reason,
                                 std::string_view server_name) {
  const bool sized = head.content_length.has_value();
  chunked_ = !sized && !is_http_1_0_;
  keep_alive_ = keep_alive_ && (sized || chunked_);
  std::string out = fmt::format("HTTP/1.1 {} {}\r\nServer: {}\r\nContent-Type: {}\r\n", head.status, reason,
                                server_name, head.content_type);
  for (const auto* const headers : {&head.headers, &std::as_const(headers_)}) {
    for (const auto& [name, value] : *headers) {
      fmt::format_to(std::back_inserter(out), "{}: {}\r\n", name, value);
    }
  }
  out += "X-Content-Type-Options: nosniff\r\n";
  if (sized) fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n", *head.content_length);
  if (chunked_) out += "Transfer-Encoding: chunked\r\n";
  if (!sized) out += "Cache-Control: no-cache\r\n";
  out +=
      keep_alive_ ? (is_http_1_0_ ? "Connection: keep-alive\r\n\r\n" : "\r\n") : "Connection: close\r\n\r\n";
  return out;
}

std::string StreamedReply::piece(std::string_view content) const {
  if (!chunked_) return std::string(content);
  // A chunk of no bytes would be the last.
  return content.empty() ? std::string() : fmt::format("{:x}\r\n{}\r\n", content.size(), content);
}

std::string StreamedReply::end() const { return chunked_ ? "0\r\n\r\n" : ""; }

}  // namespace tutti
