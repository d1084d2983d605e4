#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "audio/pcm.hpp"
#include "config/result.hpp"

namespace tutti::proto {

/// The native dialect, ws://HOST/v1/stream?encoding=...: see docs/protocol.md. Pure functions, no sockets.
enum class OutputFormat : uint8_t { json, text };

struct StreamRequest {
  PcmFormat format;
  int sample_rate = 16000;
  bool interim = true;
  bool words = true;
  bool vad_events = false;
  OutputFormat output = OutputFormat::json;
  // When a segment ends by itself, in milliseconds; 0 = never, not given = as the server does.
  std::optional<int> endpoint_silence_ms;
  std::optional<int> long_silence_ms;
  std::optional<int> max_segment_ms;
};

/// The query string of the request target, percent-decoded. Fails with bad_encoding, bad_sample_rate,
/// bad_channels, bad_parameter: what was given and what is accepted. Unknown parameters are ignored.
[[nodiscard]] Result<StreamRequest> parse_stream_request(std::string_view query);

struct Finalize {};
struct Eof {};
struct KeepAlive {};
using ClientEvent = std::variant<Finalize, Eof, KeepAlive>;

/// A client's text message. Fails with bad_json (not JSON, or not an object), bad_message (no "type", or of
/// another type than string), unknown_type.
[[nodiscard]] Result<ClientEvent> parse_client_message(std::string_view text);

struct WordTime {
  std::string word;
  double start = 0;  ///< seconds since the stream's first sample
  double end = 0;
  float confidence = 0;
};

struct Ready {
  std::string session;
  std::string model;
  int sample_rate = 16000;  ///< of the audio the client sends
  int chunk_ms = 640;
};
struct SpeechStarted {
  double time = 0;  ///< seconds since the stream's first sample
};
struct SpeechStopped {
  double time = 0;
};
struct Partial {
  int segment = 0;
  std::string text;
  double start = 0;
  double end = 0;
};
struct Final {
  int segment = 0;
  std::string text;
  double start = 0;
  double end = 0;
  float confidence = 0;
  bool has_words = false;
  std::vector<WordTime> words;
  std::string reason;  ///< endpoint, eof, finalize, length
};
struct Done {
  double audio_seconds = 0;
};
/// `fatal` errors are followed by the end of the session; others report an ignored message.
struct ErrorEvent {
  Error error;
  bool fatal = false;
};
using ServerEvent = std::variant<Ready, SpeechStarted, SpeechStopped, Partial, Final, Done, ErrorEvent>;

/// One WebSocket text message. In text form a partial is "~ TEXT", a final is "TEXT", an error is "! MESSAGE"
/// and everything else is empty (nothing is sent).
[[nodiscard]] std::string write_event(const ServerEvent& event, OutputFormat format);

}  // namespace tutti::proto
