#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/inbox.hpp"
#include "actors/metrics.hpp"
#include "actors/ports.hpp"
#include "actors/recognition_stream.hpp"
#include "actors/session_feed.hpp"
#include "actors/trace_writer.hpp"
#include "proto/dialect.hpp"

namespace tutti {

/// What a stream actor is born with.
struct StreamSetup {
  std::string session;  ///< its name on the wire and in logs
  std::string_view dialect_name;
  std::shared_ptr<proto::Dialect> dialect;
  std::shared_ptr<SessionSink> sink;
  std::shared_ptr<Inbox> inbox;
  std::shared_ptr<SessionFeed> feed = nullptr;  ///< null when nobody watches
  std::shared_ptr<Metrics> metrics;
  std::shared_ptr<TraceWriter> traces = nullptr;  ///< null when sessions are not traced
  int credit_ms = 4000;
  EndpointRules endpoint = EndpointRules::none();  ///< where the client does not say
};

/// What a stream actor does with its messages: its client's go to the dialect, what the dialect wants done to
/// the session's recognition streams, their events to the dialect again, and its replies to the client. The
/// actor around it adds only the mailbox.
class Conversation final : private TrackListener {
 public:
  /// Where recognition streams get their places.
  struct Places {
    /// The answer comes to on_admission, with the `tag` of the options.
    std::function<void(const PlaceRequest& request)> ask;
    /// The stream that had it has ended, and the session goes on.
    std::function<void(int tag)> give_back;
  };

  Conversation(StreamSetup setup, Places places);
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;
  ~Conversation() override;

  /// First of all.
  void open();
  void on_admission(int tag, const Admission& admission);
  void on_audio(const AudioBytes& audio);
  void on_text(const TextMessage& message);
  void on_updates(const StreamUpdates& message);
  void on_owner_lost(const caf::actor_addr& owner);
  /// Ends the audio of all tracks here, and the session when they are done, because the server ends.
  void drain();
  /// The client is gone. Who is heard elsewhere is recognized to the end of what was sent.
  void hang_up();
  /// The session has to end, likewise; at a limit of its own also who is heard here.
  void fault(const Error& error);
  /// The server ends, and does not wait for what was sent.
  void stop();
  /// Tells the dialect when its client was silent for too long by `now`. Returns when to be called again;
  /// nothing when no silence is too long.
  [[nodiscard]] std::optional<Clock::time_point> check_idle(Clock::time_point now);

  /// Nothing more will be said: the actor quits.
  [[nodiscard]] bool ended() const { return ended_; }

  /// What a session may send before it has a track, and may always send more than its tracks allow.
  static constexpr int64_t opening_credit_bytes = 8 << 10;

 private:
  /// What a client's message costs until it has had all its effect: a place among the commands, and of its
  /// bytes those that were no audio.
  struct Cost;
  struct Step {
    proto::Action action;
    std::shared_ptr<Cost> cost;  // null when no message of the client's caused it
  };
  struct Track {
    int tag;  // of its place: another each time it moves, so that what the last owner says is ignored
    std::string label;  // of OpenTrack
    RecognitionStream stream;
    Track(int track_tag, std::string name, TrackSetup setup, TrackListener& listener)
        : tag(track_tag), label(std::move(name)), stream(std::move(setup), listener) {}
  };

  void on_event(int track, const proto::ServerEvent& event) override;
  void on_heard(int track, int64_t bytes) override;
  void give_back(int64_t bytes) override;
  void note_audio(double seconds) override { setup_.sink->note_audio(seconds); }

  /// Makes a call of the dialect, and has done what it wants done.
  template <class Call>
  void converse(const std::shared_ptr<Cost>& cost, Call call);
  void perform(const proto::OpenTrack& action, const std::shared_ptr<Cost>& cost);
  void perform(const proto::TrackAudio& action, const std::shared_ptr<Cost>& cost);
  void perform(const proto::FinalizeTrack& action, const std::shared_ptr<Cost>& cost);
  void perform(const proto::ResetTrack& action, const std::shared_ptr<Cost>& cost);
  void perform(const proto::EndTrack& action, const std::shared_ptr<Cost>& cost);
  void perform(const proto::Reply& action, const std::shared_ptr<Cost>& cost);
  void perform(const proto::Ignored& action, const std::shared_ptr<Cost>& cost);
  void perform(const proto::Announce& action, const std::shared_ptr<Cost>& cost);
  void perform(const proto::Close& action, const std::shared_ptr<Cost>& cost);

  void tell(const proto::TrackName& track, const proto::ServerEvent& event);
  void end_with(const Error& error);
  void finish_tracks(proto::Close close);
  [[nodiscard]] std::string label_of(int track) const;
  [[nodiscard]] RecognitionStream* find(int track);
  [[nodiscard]] size_t open_tracks() const;
  void note_message(Clock::time_point arrival);
  void sweep();
  void note_wait();

  StreamSetup setup_;
  Places places_;
  Clock::time_point last_message_;  // arrival, or later: when the client could send again
  int64_t owed_bytes_ = 0;          // of credit, when negative
  int next_tag_ = 0;
  bool draining_ = false;
  bool is_at_limit_ = false;
  std::optional<proto::Close> closing_;  // when all tracks are done; no more are opened
  bool ended_ = false;
  std::string end_reason_ = "lost";  // until it is known
  bool failed_ = false;
  bool performing_ = false;
  bool client_waits_ = false;            // it has said all that it wants recognized
  std::shared_ptr<SessionTrace> trace_;  // null = it is not traced
  // Both hold costs, which give back to the members above.
  std::vector<std::unique_ptr<Track>> tracks_;  // a closed one until the call is over
  std::deque<Step> steps_;
};

}  // namespace tutti
