#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/audio_intake.hpp"
#include "actors/credit.hpp"
#include "actors/metrics.hpp"
#include "actors/movable_stream.hpp"
#include "actors/session_trace.hpp"
#include "proto/events.hpp"

namespace tutti {

/// Who hears what a recognition stream has to say. `track` is the stream's number in its session.
class TrackListener {
 public:
  virtual ~TrackListener() = default;
  virtual void on_event(int track, const proto::ServerEvent& event) = 0;
  /// The first `bytes` of its audio have had their effect, or cannot have any before more comes.
  virtual void on_heard(int track, int64_t bytes) = 0;
  /// The client may send so much more; less than it might have sent when negative.
  virtual void give_back(int64_t bytes) = 0;
  /// So much audio is being recognized.
  virtual void note_audio(double seconds) = 0;
};

/// What a recognition stream is born with.
struct TrackSetup {
  int track = 0;
  std::string session;            ///< its name on the wire and in logs
  std::string_view dialect_name;  ///< for metrics
  proto::StreamRequest request;
  std::shared_ptr<Metrics> metrics;
  int credit_ms = 4000;
  EndpointRules endpoint = EndpointRules::none();  ///< where the client does not say
  SessionTrace* trace = nullptr;                   ///< outlives it; null = it is not traced
};

/// Of the client's message that a command came in: held until the command has been passed on.
using Receipt = std::shared_ptr<const void>;

/// One track of a session: audio and commands become calls of its lease, and the engine's updates become
/// events.
///
/// Audio and commands keep their order. Commands wait in the queue for the audio before them, and one
/// finalize waits for the final of the one before, so an owner's mailbox holds at most one command of a
/// stream.
///
/// Credit in bytes of samples bounds what waits for the engine. A byte of coded audio may hold any length of
/// it: those bytes are given back as they are decoded, and decoded only while the engine has room.
class RecognitionStream {
 public:
  /// The listener outlives it.
  RecognitionStream(TrackSetup setup, TrackListener& listener);
  RecognitionStream(const RecognitionStream&) = delete;
  RecognitionStream& operator=(const RecognitionStream&) = delete;
  ~RecognitionStream();

  [[nodiscard]] int track() const { return setup_.track; }
  [[nodiscard]] StreamOptions options() const;
  /// Says `ready` and grants the first credit. Until then audio and commands are queued.
  void open(StreamContext context);
  /// Or why there is no place for it.
  void refuse(const Error& reason);

  /// Whether audio still has an effect.
  [[nodiscard]] bool takes_audio() const { return !audio_ended_ && !closed_; }
  void on_audio(std::span<const std::byte> bytes, Clock::time_point arrival);
  void finalize(Clock::time_point arrival, Receipt receipt);
  void reset(Clock::time_point arrival, Receipt receipt);
  /// The end of the audio.
  void finish(Clock::time_point arrival, Receipt receipt);

  void on_updates(const StreamUpdates& message);
  /// Its owner is lost. False, and failed, when no other can go on with it; else open or refuse follow again.
  bool lose_owner();
  /// A fatal error event.
  void fail(Error error);

  /// Its last event was told.
  [[nodiscard]] bool closed() const { return closed_; }
  /// Of the owners that could go on with it; once open.
  [[nodiscard]] const std::string& model_identity() const { return context_->info().model_identity; }
  [[nodiscard]] bool is_on(const caf::actor_addr& owner) const { return context_ && context_->is_on(owner); }

 private:
  enum class Command { finalize, reset, finish };
  /// A command, due when the audio before `position` of the byte stream has been fed.
  struct Mark {
    Command command;
    int64_t position;
    Clock::time_point arrival;
    Receipt receipt;
  };

  [[nodiscard]] static SessionTrace::Kind traced_as(Command command);
  void mark(Command command, Clock::time_point arrival, Receipt receipt);
  void pump();
  void pump_audio();
  bool run_next_mark();
  void feed(size_t at_least);
  void on_update(const Update& update);
  void acknowledge(int64_t samples);
  void give_back_decoded();
  void report_heard();
  void note_words(const Update& update);
  void send_result(const proto::ServerEvent& event, const Update& update);
  void close();

  [[nodiscard]] bool is_coded() const { return setup_.request.coding != AudioCoding::pcm; }
  [[nodiscard]] int64_t received() const;
  [[nodiscard]] bool is_idle() const;
  [[nodiscard]] double seconds(int64_t sample) const;
  [[nodiscard]] proto::Final final_event(const Update& update) const;

  TrackSetup setup_;
  TrackListener& listener_;
  std::optional<MovableStream> context_;
  std::optional<AudioIntake> intake_;
  std::optional<Credit> credit_;
  std::vector<std::byte> early_;  // audio that came before its place
  std::deque<Mark> marks_;        // each holds a receipt: bounded by the session's credit and commands
  std::vector<float> samples_;    // converted, not yet fed
  Clock::time_point arrival_{};   // of the newest audio
  std::optional<Clock::time_point> wordless_since_;  // arrival of the first, until there are words
  int64_t waiting_samples_ = 0;                      // fed and not consumed
  int64_t fed_samples_ = 0;                          // in all
  int64_t given_back_ = 0;                           // bytes of coded audio
  int64_t heard_ = 0;                                // told to the listener
  bool finalizing_ = false;                          // a finalize waits for its final
  bool audio_ended_ = false;                         // finish was asked for
  bool finishing_ = false;                           // and passed on
  bool closed_ = false;
  bool moving_ = false;  // its owner is lost, and there is no other yet
  TrackTrace trace_;
};

}  // namespace tutti
