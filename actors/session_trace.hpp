#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "actors/tick_timeline.hpp"

namespace tutti {

/// The timeline of one session: when its audio came, what became of it, and when its results were told. Of
/// audio it has the size, of results the segment, never more. Pure and single-threaded; told the time.
class SessionTrace {
 public:
  using Time = Clock::time_point;

  enum class Kind : uint8_t {
    session,
    // What the client sent.
    audio,  ///< value: bytes
    finalize,
    reset,
    finish,
    // What became of it.
    waiting,  ///< for a place
    moving,   ///< to another owner
    chunk,    ///< value: lanes of the tick
    queue,
    tick,
    features,
    forward,
    decode,
    rescore,
    emit,
    // What the client was told.
    results,  ///< from their sending to when all was told
    partial,  ///< value: segment
    final,    ///< value: segment
    voice,
    error,
  };

  /// Later ones are counted, and not kept.
  static constexpr size_t max_events = 20000;
  /// Audio that comes within so long is one event.
  static constexpr std::chrono::milliseconds audio_span{200};

  /// `began` and `date` are the same moment.
  SessionTrace(std::string session, std::string dialect, Time began,
               std::chrono::system_clock::time_point date);

  void span(Kind kind, int track, Time begin, Time end, int64_t value = 0);
  void instant(Kind kind, int track, Time when, int64_t value = 0);
  void audio(int track, Time arrival, size_t bytes);
  /// Nothing more comes.
  void end(Time when);

  [[nodiscard]] const std::string& session() const { return session_; }
  /// In Chrome's trace event format (JSON), which Perfetto opens: microseconds since the session began. Of a
  /// session's track, what the client sent, what became of it, and what it was told are a row each, where
  /// spans lie one within another or one after the other.
  [[nodiscard]] std::string json() const;

 private:
  struct Event {
    int64_t begin_us;
    int32_t duration_us;  // negative = an instant
    int32_t track;
    int64_t value;
    Kind kind;
  };

  [[nodiscard]] int64_t microseconds(Time time) const;
  bool add(const Event& event);

  std::string session_;
  std::string dialect_;
  Time began_;
  std::chrono::system_clock::time_point date_;
  std::vector<Event> events_;
  int64_t dropped_ = 0;
  std::map<int, size_t> last_audio_;  // by track, the index of its event
};

/// One track's part of a session's trace. Without a trace, null, it does nothing.
class TrackTrace {
 public:
  TrackTrace(SessionTrace* trace, int track) : trace_(trace), track_(track) {}

  void note_audio(Clock::time_point arrival, size_t bytes) {
    if (trace_ != nullptr) trace_->audio(track_, arrival, bytes);
  }
  void note(SessionTrace::Kind kind, Clock::time_point when, int64_t value = 0) {
    if (trace_ != nullptr) trace_->instant(kind, track_, when, value);
  }
  /// What is told now.
  void note_result(SessionTrace::Kind kind, int64_t segment = 0) {
    if (trace_ != nullptr) trace_->instant(kind, track_, Clock::now(), segment);
  }
  /// The track has no owner from here on.
  void note_wait(Clock::time_point since) { waits_since_ = since; }
  void note_place(bool is_move);
  void note_tick(const TracedTick& traced);
  /// All that came of that tick was told.
  void note_told(const TracedTick& traced);

 private:
  SessionTrace* trace_;
  int track_;
  Clock::time_point waits_since_{};
  // Up to where their rows are filled.
  Clock::time_point recognized_until_{};
  Clock::time_point told_until_{};
};

}  // namespace tutti
