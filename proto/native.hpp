#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "config/result.hpp"
#include "proto/dialect.hpp"
#include "proto/events.hpp"

namespace tutti::proto {

// The native dialect, ws://HOST/v1/stream?encoding=...: see docs/protocol.md.

/// One track, 0, for the whole session. A request that cannot be read is answered by an error event and a
/// close, so that browsers can show why.
[[nodiscard]] Acceptance accept_native(const Handshake& handshake);

enum class OutputFormat : uint8_t { json, text };

struct NativeRequest : StreamRequest {
  OutputFormat output = OutputFormat::json;
};

/// The query string of the request target, percent-decoded. Fails with bad_encoding, bad_sample_rate,
/// bad_channels, bad_parameter: what was given and what is accepted. Unknown parameters are ignored.
[[nodiscard]] Result<NativeRequest> parse_stream_request(std::string_view query);

struct Finalize {};
struct Eof {};
struct KeepAlive {};
using ClientEvent = std::variant<Finalize, Eof, KeepAlive>;

/// A client's text message. Fails with bad_json (not JSON, or not an object), bad_message (no "type", or of
/// another type than string), unknown_type.
[[nodiscard]] Result<ClientEvent> parse_client_message(std::string_view text);

/// One WebSocket text message. In text form a partial is "~ TEXT", a final is "TEXT", an error is "! MESSAGE"
/// and everything else is empty (nothing is sent).
[[nodiscard]] std::string write_event(const ServerEvent& event, OutputFormat format);

/// Which of a session's tracks an event is of, where there may be several.
struct TrackName {
  int channel = 0;
  std::string label;  ///< said instead of the number, unless it is empty
};
/// JSON that begins with `"channel":0`, or with `"track":"inbound"`.
[[nodiscard]] std::string write_event(const ServerEvent& event, const TrackName& track);

}  // namespace tutti::proto
