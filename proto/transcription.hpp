#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "proto/native.hpp"

namespace tutti::proto {

/// The dialect of POST /v1/audio/transcriptions, which is OpenAI's: see docs/protocol.md. Pure functions, no
/// sockets.

/// What a request is answered with when it cannot be served.
struct ApiError {
  unsigned status = 400;  ///< of HTTP
  std::string code;       ///< stable and machine-readable
  std::string message;    ///< one sentence: what is wrong, and what would be accepted
  std::string param;      ///< the request's field at fault, if it is one
};

template <class T>
using ApiResult = tl::expected<T, ApiError>;

/// {"error":{"message":...,"type":...,"param":...,"code":...}}; the type follows from the status.
[[nodiscard]] std::string write_api_error(const ApiError& error);

enum class TranscriptFormat : uint8_t { json, text, verbose_json, srt, vtt };

/// The Content-Type of a transcript.
[[nodiscard]] std::string_view content_type(TranscriptFormat format);

struct TranscriptionRequest {
  std::string_view audio;  ///< the file, within the request's body
  std::string language;    ///< as given; empty when it was not
  TranscriptFormat format = TranscriptFormat::json;
  bool words = false;   ///< timestamp_granularities[]=word
  bool stream = false;  ///< answer with server-sent events
};

/// Reads a form (multipart/form-data), or a body that is the file itself (audio/*, application/octet-stream)
/// with the other fields in the query. Fields that change nothing here (model, prompt, temperature) and
/// unknown ones are ignored.
[[nodiscard]] ApiResult<TranscriptionRequest> parse_transcription_request(std::string_view content_type,
                                                                          std::string_view query,
                                                                          std::string_view body);

struct TranscriptSegment {
  double start = 0;  ///< seconds since the first sample
  double end = 0;
  std::string text;
};

struct Transcription {
  std::string language;
  double duration = 0;  ///< seconds
  std::vector<TranscriptSegment> segments;
  std::vector<WordTime> words;

  /// The segments' texts with spaces between them.
  [[nodiscard]] std::string text() const;
};

/// The body of a response. `with_words` matters to verbose_json alone.
[[nodiscard]] std::string write_transcription(const Transcription& transcription, TranscriptFormat format,
                                              bool with_words);

/// Server-sent events (stream=true). The deltas strung together are the text of `done`.
inline constexpr std::string_view event_stream_type = "text/event-stream";
[[nodiscard]] std::string write_delta_event(std::string_view delta);
[[nodiscard]] std::string write_done_event(std::string_view text);
[[nodiscard]] std::string write_error_event(const ApiError& error);

/// GET /v1/models: the one model there is. `created` is in seconds since 1970.
[[nodiscard]] std::string write_model_list(std::string_view model, int64_t created);

}  // namespace tutti::proto
