#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "audio/audio_decoder.hpp"
#include "config/result.hpp"

namespace tutti::proto {

/// What every dialect asks of a recognition stream.
struct StreamRequest {
  AudioCoding coding = AudioCoding::pcm;
  PcmFormat format;         ///< of bare samples
  int sample_rate = 16000;  ///< the same, in Hz; 0 = the model's own
  bool interim = true;
  bool words = true;
  bool vad_events = false;
  // When a segment ends by itself, in milliseconds; 0 = never, not given = as the server does.
  std::optional<int> endpoint_silence_ms;
  std::optional<int> long_silence_ms;
  std::optional<int> max_segment_ms;
};

struct WordTime {
  std::string word;
  double start = 0;  ///< seconds since the stream's first sample
  double end = 0;
  float confidence = 0;
};

struct Ready {
  std::string session;
  std::string model;
  int sample_rate = 16000;  ///< as requested
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
/// A `fatal` error is the last event of its stream; others report an ignored message.
struct ErrorEvent {
  Error error;
  bool fatal = false;
};

/// What a recognition stream says. `ready` comes first, or a fatal error; `done` or a fatal error is the
/// last.
using ServerEvent = std::variant<Ready, SpeechStarted, SpeechStopped, Partial, Final, Done, ErrorEvent>;

}  // namespace tutti::proto
