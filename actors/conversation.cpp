#include "actors/conversation.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <ranges>
#include <utility>
#include <variant>

#include "config/log_line.hpp"

namespace tutti {

struct Conversation::Cost {
  Cost(Conversation& conversation, int64_t message_bytes, bool command)
      : session(conversation), bytes(message_bytes), is_command(command) {}
  Cost(const Cost&) = delete;
  Cost& operator=(const Cost&) = delete;
  ~Cost() {
    if (is_command) --session.setup_.inbox->control_messages;
    session.give_back(bytes);
  }

  Conversation& session;
  int64_t bytes;
  bool is_command;
};

Conversation::Conversation(StreamSetup setup, Places places)
    : setup_(std::move(setup)), places_(std::move(places)), last_message_(Clock::now()) {
  setup_.metrics->session_opened(setup_.dialect_name);
  if (setup_.traces) trace_ = setup_.traces->begin(setup_.session, setup_.dialect_name);
}

Conversation::~Conversation() {
  ended_ = true;
  if (setup_.feed) setup_.feed->end();
  if (trace_) {
    trace_->end(Clock::now());
    setup_.traces->end(trace_);
  }
  setup_.metrics->session_closed(setup_.dialect_name, failed_);
  setup_.metrics->session_ended(setup_.dialect_name, end_reason_);
  spdlog::info("{}dialect={} reason={} closed", about(setup_.session), setup_.dialect_name, end_reason_);
}

namespace {

/// Whether a session ends although neither side did anything wrong: then it is owed its last results.
bool is_limit(std::string_view error_code) {
  return error_code == "stream_too_long" || error_code == "audio_limit";
}

}  // namespace

template <class Call>
void Conversation::converse(const std::shared_ptr<Cost>& cost, Call call) {
  if (ended_) return;
  proto::Actions actions;
  call(actions);
  for (proto::Action& action : actions) steps_.push_back({std::move(action), cost});
  // What a step causes is another call of the dialect, and its steps follow those that wait.
  if (std::exchange(performing_, true)) return;
  while (!steps_.empty() && !ended_) {
    const Step step = std::move(steps_.front());
    steps_.pop_front();
    std::visit([&](const auto& action) { perform(action, step.cost); }, step.action);
  }
  steps_.clear();
  performing_ = false;
}

void Conversation::open() {
  converse(nullptr, [this](proto::Actions& actions) { setup_.dialect->on_open(actions); });
  // A session that says later what it wants must be read until then.
  if (!ended_ && tracks_.empty()) give_back(opening_credit_bytes);
  sweep();
}

void Conversation::on_admission(int tag, const Admission& admission) {
  const auto track =
      std::ranges::find_if(tracks_, [tag](const std::unique_ptr<Track>& each) { return each->tag == tag; });
  if (track == tracks_.end()) return;
  if (admission) {
    const std::string_view client = setup_.sink->client();
    const std::string_view address = setup_.sink->address();
    spdlog::info("{}dialect={} opened{}{}{}{}", about(setup_.session, (*track)->stream.track()),
                 setup_.dialect_name, client.empty() ? "" : " with the key of ", client,
                 address.empty() ? "" : " from ", address);
    (*track)->stream.open(std::move(**admission));
  } else {
    (*track)->stream.refuse(admission.error());
  }
  sweep();
}

void Conversation::on_audio(const AudioBytes& audio) {
  note_message(audio.arrival);
  --setup_.inbox->audio_messages;
  const std::vector<std::byte>& bytes = audio.bytes->items;
  const auto cost = std::make_shared<Cost>(*this, static_cast<int64_t>(bytes.size()), false);
  converse(cost,
           [&](proto::Actions& actions) { setup_.dialect->on_binary(bytes, audio.ends_message, actions); });
  sweep();
}

void Conversation::on_text(const TextMessage& message) {
  note_message(message.arrival);
  const bool is_audio = setup_.dialect->has_audio_in_text();
  if (is_audio) --setup_.inbox->audio_messages;
  const auto bytes = is_audio ? static_cast<int64_t>(message.text.size()) : 0;
  const auto cost = std::make_shared<Cost>(*this, bytes, !is_audio);
  converse(cost, [&](proto::Actions& actions) { setup_.dialect->on_text(message.text, actions); });
  sweep();
}

void Conversation::note_message(Clock::time_point arrival) {
  last_message_ = std::max(last_message_, arrival);
  setup_.metrics->stream_mailbox(setup_.inbox->audio_messages + setup_.inbox->control_messages);
}

void Conversation::on_updates(const StreamUpdates& message) {
  const auto track = std::ranges::find_if(
      tracks_, [&](const std::unique_ptr<Track>& each) { return each->tag == message.tag; });
  if (track != tracks_.end() && !(*track)->stream.closed()) (*track)->stream.on_updates(message);
  sweep();
}

void Conversation::on_owner_lost(const caf::actor_addr& owner) {
  // By index: an event may open another track.
  for (size_t i = 0; i < tracks_.size(); ++i) {
    RecognitionStream& stream = tracks_[i]->stream;
    if (stream.closed() || !stream.is_on(owner) || !stream.lose_owner()) continue;
    StreamOptions options = stream.options();
    options.tag = tracks_[i]->tag = next_tag_++;
    places_.ask({.options = options, .is_move = true, .model_identity = stream.model_identity()});
  }
  sweep();
}

void Conversation::drain() {
  draining_ = true;
  finish_tracks({});
}

void Conversation::hang_up() {
  if (setup_.dialect->is_heard_elsewhere()) return finish_tracks({});
  end_reason_ = "client_left";
  ended_ = true;
}

void Conversation::fault(const Error& error) {
  if (ended_) return;
  const bool is_heard_elsewhere = setup_.dialect->is_heard_elsewhere();
  is_at_limit_ = is_limit(error.code);
  if (closing_ || (!is_heard_elsewhere && !is_at_limit_)) return end_with(error);
  failed_ = true;
  spdlog::info("{}code={} ends: {}", about(setup_.session), error.code, error.message);
  setup_.metrics->error(setup_.dialect_name, error.code);
  if (is_heard_elsewhere) {
    converse(nullptr, [&](proto::Actions& actions) { setup_.dialect->on_fault(error, actions); });
  }
  finish_tracks({proto::close_reason(error.code), error.message});
}

void Conversation::stop() { end_with({"stopped", "the server stopped before this stream had finished"}); }

/// What comes of the audio still comes, then the session is closed.
void Conversation::finish_tracks(proto::Close close) {
  if (!closing_) closing_ = std::move(close);
  // By index: an event may open another track.
  for (size_t i = 0; i < tracks_.size(); ++i) tracks_[i]->stream.finish(Clock::now(), nullptr);
  sweep();
}

void Conversation::end_with(const Error& error) {
  if (ended_) return;
  failed_ = true;
  spdlog::info("{}code={} ended: {}", about(setup_.session), error.code, error.message);
  setup_.metrics->error(setup_.dialect_name, error.code);
  converse(nullptr, [&](proto::Actions& actions) {
    setup_.dialect->on_fault(error, actions);
    actions.emplace_back(proto::Close{proto::close_reason(error.code), error.message});
  });
}

std::optional<Clock::time_point> Conversation::check_idle(Clock::time_point now) {
  const auto limit = setup_.dialect->idle_limit();
  if (!limit || ended_) return std::nullopt;
  // Who is not read cannot be heard, and who waits for results has nothing to say.
  if (setup_.inbox->credit_bytes <= 0 || client_waits_) last_message_ = now;
  if (now - last_message_ >= *limit) {
    last_message_ = now;
    converse(nullptr, [this](proto::Actions& actions) { setup_.dialect->on_idle(actions); });
    sweep();
  }
  return last_message_ + *limit;
}

void Conversation::on_event(int track, const proto::ServerEvent& event) {
  tell({.channel = track, .label = label_of(track)}, event);
}

void Conversation::tell(const proto::TrackName& track, const proto::ServerEvent& event) {
  if (std::holds_alternative<proto::ErrorEvent>(event)) failed_ = true;
  if (setup_.feed && !ended_) setup_.feed->on_event(track, event);
  converse(nullptr,
           [&](proto::Actions& actions) { setup_.dialect->on_event(track.channel, event, actions); });
}

void Conversation::on_heard(int track, int64_t bytes) {
  converse(nullptr, [&](proto::Actions& actions) { setup_.dialect->on_heard(track, bytes, actions); });
}

void Conversation::give_back(int64_t bytes) {
  owed_bytes_ += bytes;
  if (owed_bytes_ <= 0 || ended_) return;
  const int64_t granted = std::exchange(owed_bytes_, 0);
  // First: the session may use it at once.
  if (setup_.inbox->credit_bytes.fetch_add(granted) <= 0) {
    last_message_ = std::max(last_message_, Clock::now());
  }
  setup_.sink->grant(granted);
}

void Conversation::perform(const proto::OpenTrack& action, const std::shared_ptr<Cost>& /*cost*/) {
  const auto refuse = [&](std::string code, std::string message) {
    setup_.metrics->refused(setup_.dialect_name, code);
    tell({.channel = action.track, .label = action.label},
         proto::ErrorEvent{.error = {std::move(code), std::move(message)}, .fatal = true});
  };
  if (find(action.track) != nullptr) return;
  if (closing_) return refuse("draining", "the server is shutting down");
  if (open_tracks() == proto::max_tracks) {
    return refuse("too_many_tracks", fmt::format("a session has at most {} tracks", proto::max_tracks));
  }
  TrackSetup setup{.track = action.track,
                   .session = setup_.session,
                   .dialect_name = setup_.dialect_name,
                   .request = action.request,
                   .metrics = setup_.metrics,
                   .credit_ms = setup_.credit_ms,
                   .endpoint = setup_.endpoint,
                   .trace = trace_.get()};
  TrackListener& listener = *this;
  auto track = std::make_unique<Track>(next_tag_++, action.label, std::move(setup), listener);
  StreamOptions options = track->stream.options();
  options.tag = track->tag;
  places_.ask({.options = options});
  tracks_.push_back(std::move(track));
}

void Conversation::perform(const proto::TrackAudio& action, const std::shared_ptr<Cost>& cost) {
  RecognitionStream* const stream = find(action.track);
  if (stream == nullptr || !stream->takes_audio()) return setup_.metrics->audio_ignored();
  // Given back when the stream has recognized it.
  const auto size = static_cast<int64_t>(action.bytes.size());
  if (cost) {
    cost->bytes -= size;
  } else {
    give_back(-size);
  }
  stream->on_audio(action.bytes, last_message_);
}

void Conversation::perform(const proto::FinalizeTrack& action, const std::shared_ptr<Cost>& cost) {
  if (RecognitionStream* const stream = find(action.track)) stream->finalize(last_message_, cost);
}

void Conversation::perform(const proto::ResetTrack& action, const std::shared_ptr<Cost>& cost) {
  if (RecognitionStream* const stream = find(action.track)) stream->reset(last_message_, cost);
}

void Conversation::perform(const proto::EndTrack& action, const std::shared_ptr<Cost>& cost) {
  if (RecognitionStream* const stream = find(action.track)) stream->finish(last_message_, cost);
}

void Conversation::perform(const proto::Reply& action, const std::shared_ptr<Cost>& /*cost*/) {
  setup_.sink->send(action.text, action.is_partial);
}

void Conversation::perform(const proto::Ignored& /*action*/, const std::shared_ptr<Cost>& /*cost*/) {
  setup_.metrics->message_ignored();
}

void Conversation::perform(const proto::Announce& action, const std::shared_ptr<Cost>& /*cost*/) {
  spdlog::info("{}is {}", about(setup_.session), action.name);
  if (setup_.feed) setup_.feed->announce(action.name);
}

void Conversation::perform(const proto::Close& action, const std::shared_ptr<Cost>& /*cost*/) {
  ended_ = true;
  end_reason_ = !action.error_code.empty() ? action.error_code : draining_ ? "draining" : "finished";
  if (!action.error_code.empty()) {
    failed_ = true;
    setup_.metrics->error(setup_.dialect_name, action.error_code);
    if (next_tag_ == 0) setup_.metrics->refused(setup_.dialect_name, action.error_code);
  }
  if (draining_ && action.code == CloseReason::normal) {
    setup_.sink->close(CloseReason::going_away, "the server is shutting down");
  } else if (is_at_limit_ && closing_) {
    setup_.sink->close(closing_->code, closing_->message);
  } else {
    setup_.sink->close(action.code, action.message);
  }
}

/// The newest of that number: the one that still says something.
std::string Conversation::label_of(int track) const {
  for (const auto& each : std::views::reverse(tracks_)) {
    if (each->stream.track() == track) return each->label;
  }
  return {};
}

RecognitionStream* Conversation::find(int track) {
  const auto found = std::ranges::find_if(tracks_, [track](const std::unique_ptr<Track>& each) {
    return each->stream.track() == track && !each->stream.closed();
  });
  return found == tracks_.end() ? nullptr : &(*found)->stream;
}

size_t Conversation::open_tracks() const {
  return static_cast<size_t>(std::ranges::count_if(
      tracks_, [](const std::unique_ptr<Track>& each) { return !each->stream.closed(); }));
}

/// The end of its audio may be long ago when its results come: it has to wait for a place, or for an owner.
void Conversation::note_wait() {
  const bool waits =
      !tracks_.empty() && std::ranges::none_of(tracks_, [](const std::unique_ptr<Track>& each) {
        return each->stream.takes_audio();
      });
  if (std::exchange(client_waits_, waits) == waits || ended_) return;
  last_message_ = std::max(last_message_, Clock::now());
  setup_.sink->await_results(waits);
}

/// Not from within a track's call: it may be the one that goes.
void Conversation::sweep() {
  std::erase_if(tracks_, [this](const std::unique_ptr<Track>& each) {
    if (each->stream.closed() && !ended_) places_.give_back(each->tag);
    return each->stream.closed();
  });
  note_wait();
  if (closing_ && tracks_.empty() && !ended_) perform(*closing_, nullptr);
}

}  // namespace tutti
