#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/result.hpp"
#include "engine/engine.hpp"

namespace tutti {

struct TranscribedWord {
  std::string word;
  double start = 0;  ///< seconds
  double end = 0;
  float confidence = 0;
};

struct Transcript {
  std::string file;
  std::string text;
  std::vector<TranscribedWord> words;
  double audio_seconds = 0;
  double wall_seconds = 0;  ///< from opening the file to its last word
};

struct TranscriptError {
  std::string file;
  Error error;
};

/// Transcribes files through one engine, several at a time so that they share ticks.
class Transcriber {
 public:
  explicit Transcriber(Engine& engine) : engine_(engine) {}

  /// Calls `on_done` or `on_error` once per file, in the order of `files`; `on_progress` with the seconds of
  /// audio recognized so far.
  void run(const std::vector<std::string>& files, const std::function<void(const Transcript&)>& on_done,
           const std::function<void(const TranscriptError&)>& on_error,
           const std::function<void(double seconds)>& on_progress);

 private:
  Engine& engine_;
};

}  // namespace tutti
