#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/clips.hpp"
#include "app/pace.hpp"
#include "app/word_errors.hpp"
#include "net/client.hpp"
#include "proto/native.hpp"

namespace tutti {

/// What the clients of one load measured. Latencies in milliseconds.
struct LoadResults {
  int64_t sessions = 0;  ///< that ended with `done`
  double audio_seconds = 0;
  std::vector<double> first_partial;
  std::vector<double> chunk;
  std::vector<double> final;
  std::vector<double> send_lag;             ///< of each frame behind its time: what the load itself is late
  std::map<std::string, int64_t> failures;  ///< by what was said
  WordErrors words;
};

/// Milliseconds of audio that must have been sent before a result can end at `end_seconds`: the chunk that
/// the end lies in, and the 45 ms that its last frame sees beyond it (4x subsampling over 25/10 ms frames).
[[nodiscard]] int64_t window_end_ms(double end_seconds, int chunk_ms);

/// One speaker after another: sends clips at the pace they were spoken, in 20 ms frames, each over a
/// connection of its own, until `end`.
class LoadClient final : public ClientListener {
 public:
  /// Starts with clip `first` of `clips`. Everything referred to outlives this.
  LoadClient(ClientLoop& loop, const ClientUrl& url, const std::string& api_key, std::span<const Clip> clips,
             size_t first, Pace::TimePoint end, LoadResults& results)
      : loop_(loop),
        url_(url),
        api_key_(api_key),
        clips_(clips),
        next_clip_(first),
        end_(end),
        results_(results) {}

  void start();

 private:
  void on_open() override {}
  void on_message(std::string_view message) override;
  void on_sent() override { send_next(); }
  void on_end(const ClientEnd& end) override;

  void on_event(const proto::Ready& ready);
  void on_event(const proto::Partial& partial);
  void on_event(const proto::Final& final);
  void on_event(const proto::Done& done);
  void on_event(const proto::ErrorEvent& error);
  void on_event(const proto::SpeechStarted& /*speech*/) {}
  void on_event(const proto::SpeechStopped& /*speech*/) {}

  void send_next();
  [[nodiscard]] double ms_since(Pace::TimePoint then) const;

  ClientLoop& loop_;
  const ClientUrl& url_;
  const std::string& api_key_;
  std::span<const Clip> clips_;
  size_t next_clip_;
  Pace::TimePoint end_;
  LoadResults& results_;

  // Of the session:
  const Clip* clip_ = nullptr;
  std::unique_ptr<WsClient> client_;
  Pace pace_{1, {}};
  int chunk_ms_ = 0;
  std::vector<Pace::TimePoint> sent_at_;  // of each frame
  Pace::TimePoint eof_sent_at_{};
  bool eof_sent_ = false;
  bool heard_something_ = false;
  bool done_ = false;
  std::string text_;
  std::string error_;
};

}  // namespace tutti
