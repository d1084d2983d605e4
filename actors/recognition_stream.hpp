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
#include "actors/inbox.hpp"
#include "actors/metrics.hpp"
#include "actors/ports.hpp"
#include "actors/stream_context.hpp"
#include "proto/native.hpp"

namespace tutti {

/// What a stream actor is born with.
struct StreamSetup {
  std::string session;  ///< its name on the wire and in logs
  std::string query;
  std::shared_ptr<SessionSink> sink;
  std::shared_ptr<Inbox> inbox;
  std::shared_ptr<Metrics> metrics;
  int credit_ms = 4000;
  EndpointRules endpoint = EndpointRules::none();  ///< where the client does not say
};

/// What a stream actor does with its messages: the client's audio and commands become calls of its lease, and
/// the engine's updates become the client's events. The actor around it adds only the mailbox.
///
/// Audio and commands keep their order. Commands wait in the queue for the audio before them, and one
/// finalize waits for the final of the one before, so an owner's mailbox holds at most one command of a
/// stream.
class RecognitionStream {
 public:
  RecognitionStream(StreamSetup setup, const proto::NativeRequest& request);
  RecognitionStream(const RecognitionStream&) = delete;
  RecognitionStream& operator=(const RecognitionStream&) = delete;
  ~RecognitionStream();

  [[nodiscard]] StreamOptions options() const;
  /// Says `ready` and grants the first credit. Until then commands are queued and there is no audio.
  void open(StreamContext context);
  /// Or why there is no place for it.
  void refuse(const Error& reason);

  void on_audio(const AudioBytes& audio);
  void on_text(std::string_view message);
  void on_updates(std::span<const Update> updates);
  /// Ends the audio here, as `eof` would, because the server ends.
  void drain();
  /// An error event, then the end.
  void fail(Error error, CloseReason reason);

  /// Nothing more will be said: the actor quits.
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  /// A command, due when the audio before `position` of the byte stream has been fed.
  struct Mark {
    int64_t position;
    Clock::time_point arrival;
    bool is_eof;
    bool is_clients;  // counted in the inbox
  };

  void end_audio(bool is_clients);
  void pump();
  bool run_next_mark();
  void feed(size_t at_least);
  void on_update(const Update& update);
  void acknowledge(int64_t samples);
  void grant(int64_t bytes);
  void command_done() { --setup_.inbox->control_messages; }
  void note_mailbox() const;
  void send(const proto::ServerEvent& event);
  void send_result(const proto::ServerEvent& event, const Update& update);
  void close(CloseReason reason, std::string message);

  [[nodiscard]] double seconds(int64_t sample) const;
  [[nodiscard]] proto::Final final_event(const Update& update) const;

  StreamSetup setup_;
  proto::NativeRequest request_;
  std::optional<StreamContext> context_;
  std::optional<AudioIntake> intake_;
  std::optional<Credit> credit_;
  std::deque<Mark> marks_;       // at most max_control_messages, and one of drain()
  std::vector<float> samples_;   // converted, not yet fed
  Clock::time_point arrival_{};  // of the newest audio
  int64_t waiting_samples_ = 0;  // fed and not consumed
  bool finalizing_ = false;      // a finalize waits for its final
  bool audio_ended_ = false;     // eof was received, or the server drains
  bool finishing_ = false;       // and passed on
  bool draining_ = false;
  bool ended_ = false;
};

}  // namespace tutti
