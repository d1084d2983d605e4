#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "actors/ports.hpp"

namespace tutti {

/// How a reply that is made bit by bit is put on the wire: with its length when that is known, in chunks when
/// it is made as it goes (RFC 9112 section 7.1), and up to the end of the connection for a client of
/// HTTP/1.0.
class StreamedReply {
 public:
  /// `headers` are added to those of the reply.
  StreamedReply(bool is_http_1_0, bool keep_alive, proto::Headers headers)
      : is_http_1_0_(is_http_1_0), keep_alive_(keep_alive), headers_(std::move(headers)) {}

  /// The status line, with the `reason` of its status, and the headers.
  [[nodiscard]] std::string begin(const ReplyHead& head, std::string_view reason,
                                  std::string_view server_name);
  [[nodiscard]] std::string piece(std::string_view content) const;
  [[nodiscard]] std::string end() const;
  /// Whether the connection can serve another request; known once begun.
  [[nodiscard]] bool keep_alive() const { return keep_alive_; }

 private:
  bool is_http_1_0_;
  bool keep_alive_;
  proto::Headers headers_;
  bool chunked_ = false;
};

}  // namespace tutti
