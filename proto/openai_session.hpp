#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>

#include "audio/pcm.hpp"
#include "config/json_writer.hpp"
#include "proto/events.hpp"

namespace tutti::proto {

/// How a session's settings are written: `session.audio.input...`, or the flat `input_audio_format...` of
/// older clients.
enum class SessionForm : uint8_t { nested, flat };

struct TurnDetection {
  double threshold = 0.5;  // told back, and without effect
  int prefix_padding_ms = 300;
  int silence_duration_ms = 500;
  bool operator==(const TurnDetection&) const = default;
};

/// What a client of the realtime API sets.
struct OpenAiSession {
  Encoding encoding = Encoding::pcm_s16le;
  int sample_rate = 24000;
  std::optional<TurnDetection> turn_detection = TurnDetection{};  ///< nothing: the client commits
  std::string model;
  std::string language;
  std::string prompt;

  /// Whether `other` needs another recognition stream.
  [[nodiscard]] bool same_stream(const OpenAiSession& other) const;
  [[nodiscard]] StreamRequest stream_request() const;
};

/// What is wrong with a client's event, and which member of it.
struct EventError {
  std::string code;
  std::string message;
  std::string param;
};
template <class T>
using EventResult = tl::expected<T, EventError>;

/// `session` with the changes that a client's `session` object asks for, and the form it is in. Fails with
/// invalid_value. Unknown members are ignored.
struct SessionUpdate {
  OpenAiSession session;
  SessionForm form = SessionForm::nested;
};
[[nodiscard]] EventResult<SessionUpdate> update_session(OpenAiSession session,
                                                        const simdjson::dom::object& changes);

/// The members of a `session` object, without its brackets.
void write_session(JsonWriter& json, const OpenAiSession& session, SessionForm form);

}  // namespace tutti::proto
