#include "proto/openai_realtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "config/json_writer.hpp"
#include "proto/base64.hpp"
#include "proto/json_message.hpp"
#include "proto/openai_session.hpp"
#include "proto/parameter.hpp"
#include "proto/query.hpp"
#include "proto/stable_text.hpp"

namespace tutti::proto {
namespace {

using simdjson::dom::object;

// The protocol allows 15 MiB of base64 in a message; the server's own limit for messages is usually lower.
constexpr size_t max_message_bytes = 16U << 20U;
constexpr int least_commit_ms = 100;
// Recognition streams that end while their successor listens: a client that changes its settings all the time
// waits for them.
constexpr size_t max_open_tracks = 4;

/// A stretch of audio that gets one transcript. It is *committed* when its end is known.
struct Item {
  std::string id;
  std::string text;  // of the segments that are final
  StableText deltas;
  double start = 0;  // seconds of its track
  double end = 0;    // known when it is committed
};

/// One recognition stream. There is another one only while a change of the settings takes effect.
struct Track {
  StreamRequest request;
  bool has_turns = false;  // the server commits at the end of a turn
  double begin = 0;        // seconds of the session's audio before it
  int64_t received = 0;    // bytes
  int64_t committed = 0;   // bytes: what the client committed or cleared, and what a turn's end did
  double cleared = 0;      // seconds: nothing before is of interest
  bool ending = false;
  bool speaking = false;
  std::optional<Item> open;     // its audio is still coming
  std::deque<Item> committing;  // by the client, and not transcribed to its end

  [[nodiscard]] double seconds(int64_t bytes) const {
    return static_cast<double>(bytes / bytes_per_sample(request.format.encoding)) / request.sample_rate;
  }
  [[nodiscard]] int64_t bytes(double seconds) const {
    return std::llround(seconds * request.sample_rate) * bytes_per_sample(request.format.encoding);
  }
};

class OpenAiRealtimeDialect final : public Dialect {
 public:
  OpenAiRealtimeDialect(const Handshake& handshake, SessionForm form, std::string model)
      : session_id_(handshake.session), id_prefix_(handshake.session.substr(0, 8)), created_form_(form) {
    session_.model = std::move(model);
  }

  [[nodiscard]] bool has_audio_in_text() const override { return true; }
  void on_open(Actions& actions) override;
  void on_text(std::string_view message, Actions& actions) override;
  void on_binary(std::span<const std::byte> bytes, bool is_last, Actions& actions) override;
  void on_event(int index, const ServerEvent& event, Actions& actions) override;
  void on_fault(const Error& error, Actions& actions) override;

 private:
  // What the client says.
  EventResult<void> on_client_event(std::string_view type, const object& event, Actions& actions);
  EventResult<void> on_update(std::string_view reply_type, bool is_flat, const object& event,
                              Actions& actions);
  EventResult<void> on_append(const object& event, Actions& actions);
  EventResult<void> on_commit(Actions& actions);
  void on_clear(Actions& actions);
  EventResult<void> change_stream(Actions& actions);
  Track& listening_track(Actions& actions);
  void hear(std::vector<std::byte> bytes, Actions& actions);

  // What the recognizer says.
  void on_speech_started(Track& track, double time, Actions& actions);
  void on_speech_stopped(Track& track, double time, Actions& actions);
  void on_partial(Track& track, const Partial& partial, Actions& actions);
  void on_final(Track& track, const Final& final, Actions& actions);
  void on_track_closed(int index, const Error& reason, Actions& actions);
  void end_turn(Track& track, const Final& final, Actions& actions);

  Item& open_item(Track& track);
  void commit(Item& item, double end, Actions& actions);
  void complete(Item item, Actions& actions);
  void say_delta(const Item& item, std::string_view delta, Actions& actions);
  void fail_items(Track& track, const Error& reason, Actions& actions);

  // What is written.
  std::string next_id(std::string_view kind) { return fmt::format("{}_{}{:06}", kind, id_prefix_, ++ids_); }
  JsonWriter begin_event(std::string_view type);
  void say_session(std::string_view type, SessionForm form, Actions& actions);
  void say_voice(std::string_view type, std::string_view time_name, double seconds, const Item& item,
                 Actions& actions);
  void say_error(std::string_view type, const EventError& error, std::string_view client_event_id,
                 Actions& actions);

  std::string session_id_;
  std::string id_prefix_;
  SessionForm created_form_;
  OpenAiSession session_;
  std::map<int, Track> tracks_;
  int track_count_ = 0;
  std::optional<int> listening_;  // the track that takes the audio
  double heard_before_ = 0;       // seconds of audio that earlier tracks took
  std::string last_item_;
  int64_t ids_ = 0;
};

void OpenAiRealtimeDialect::on_open(Actions& actions) {
  say_session(created_form_ == SessionForm::flat ? "transcription_session.created" : "session.created",
              created_form_, actions);
}

void OpenAiRealtimeDialect::on_text(std::string_view message, Actions& actions) {
  std::string event_id;
  const auto refuse = [&](const EventError& error) {
    say_error("invalid_request_error", error, event_id, actions);
    actions.emplace_back(Ignored{{error.code, error.message}});
  };
  const auto json = JsonMessage::parse(message, max_message_bytes);
  if (!json) return refuse({"invalid_json", json.error().message, ""});
  const object& event = json->object();
  event_id = string_in(event, "event_id").value_or("");
  const auto type = string_in(event, "type");
  if (!type) return refuse({"missing_required_parameter", "the event has no \"type\"", "type"});
  if (const auto done = on_client_event(*type, event, actions); !done) refuse(done.error());
}

EventResult<void> OpenAiRealtimeDialect::on_client_event(std::string_view type, const object& event,
                                                         Actions& actions) {
  if (type == "input_audio_buffer.append") return on_append(event, actions);
  if (type == "input_audio_buffer.commit") return on_commit(actions);
  if (type == "input_audio_buffer.clear") {
    on_clear(actions);
    return {};
  }
  if (type == "session.update") return on_update("session.updated", false, event, actions);
  if (type == "transcription_session.update") {
    return on_update("transcription_session.updated", true, event, actions);
  }
  return tl::unexpected(EventError{
      "invalid_value",
      fmt::format("\"type\" is {}; accepted are session.update, transcription_session.update, "
                  "input_audio_buffer.append, input_audio_buffer.commit and input_audio_buffer.clear",
                  shown(type)),
      "type"});
}

EventResult<void> OpenAiRealtimeDialect::on_update(std::string_view reply_type, bool is_flat,
                                                   const object& event, Actions& actions) {
  const auto changes = object_in(event, "session");
  if (!changes) {
    return tl::unexpected(
        EventError{"missing_required_parameter", "the event has no object \"session\"", "session"});
  }
  auto update = update_session(session_, *changes);
  if (!update) return tl::unexpected(update.error());
  if (!session_.same_stream(update->session)) {
    if (auto changed = change_stream(actions); !changed) return changed;
  }
  session_ = std::move(update->session);
  say_session(reply_type, is_flat ? SessionForm::flat : update->form, actions);
  return {};
}

/// The stream that listens ends, and the next audio begins another one.
EventResult<void> OpenAiRealtimeDialect::change_stream(Actions& actions) {
  if (!listening_) return {};
  Track& track = tracks_.at(*listening_);
  if (!track.has_turns && track.received > track.committed) {
    return tl::unexpected(EventError{
        "input_audio_buffer_not_empty",
        "the audio format and turn_detection can change when the audio buffer is empty: commit or clear it",
        "session"});
  }
  if (tracks_.size() >= max_open_tracks) {
    return tl::unexpected(
        EventError{"too_many_updates", "earlier changes have not taken effect yet", "session"});
  }
  heard_before_ += track.seconds(track.received);
  track.ending = true;
  actions.emplace_back(EndTrack{*listening_});
  listening_.reset();
  return {};
}

Track& OpenAiRealtimeDialect::listening_track(Actions& actions) {
  if (!listening_) {
    listening_ = track_count_++;
    Track& track = tracks_[*listening_];
    track.request = session_.stream_request();
    track.has_turns = session_.turn_detection.has_value();
    track.begin = heard_before_;
    actions.emplace_back(OpenTrack{.track = *listening_, .request = track.request});
  }
  return tracks_.at(*listening_);
}

void OpenAiRealtimeDialect::hear(std::vector<std::byte> bytes, Actions& actions) {
  if (bytes.empty()) return;
  listening_track(actions).received += static_cast<int64_t>(bytes.size());
  actions.emplace_back(TrackAudio{.track = *listening_, .bytes = std::move(bytes)});
}

EventResult<void> OpenAiRealtimeDialect::on_append(const object& event, Actions& actions) {
  const auto text = string_in(event, "audio");
  if (!text)
    return tl::unexpected(EventError{"missing_required_parameter", "the event has no \"audio\"", "audio"});
  auto bytes = decode_base64(*text);
  if (!bytes) return tl::unexpected(EventError{"invalid_value", "\"audio\" is not base64", "audio"});
  hear(std::move(*bytes), actions);
  return {};
}

void OpenAiRealtimeDialect::on_binary(std::span<const std::byte> bytes, bool /*ends_message*/,
                                      Actions& actions) {
  hear({bytes.begin(), bytes.end()}, actions);
}

EventResult<void> OpenAiRealtimeDialect::on_commit(Actions& actions) {
  const double milliseconds = [&] {
    if (!listening_) return 0.0;
    const Track& track = tracks_.at(*listening_);
    return track.seconds(track.received - track.committed) * 1000;
  }();
  if (milliseconds < least_commit_ms) {
    return tl::unexpected(
        EventError{"input_audio_buffer_commit_empty",
                   fmt::format("the buffer has {:.2f} ms of audio; at least {} ms can be committed",
                               milliseconds, least_commit_ms),
                   ""});
  }
  Track& track = tracks_.at(*listening_);
  Item item = std::move(open_item(track));
  track.open.reset();
  commit(item, track.seconds(track.received), actions);
  track.committed = track.received;
  track.committing.push_back(std::move(item));
  actions.emplace_back(FinalizeTrack{*listening_});
  return {};
}

void OpenAiRealtimeDialect::on_clear(Actions& actions) {
  if (listening_) {
    Track& track = tracks_.at(*listening_);
    track.committed = track.received;
    track.cleared = track.seconds(track.received);
    track.open.reset();
    track.speaking = false;
    actions.emplace_back(ResetTrack{*listening_});
  }
  actions.emplace_back(Reply{std::move(begin_event("input_audio_buffer.cleared").end_object()).take()});
}

void OpenAiRealtimeDialect::on_event(int index, const ServerEvent& event, Actions& actions) {
  const auto found = tracks_.find(index);
  if (found == tracks_.end()) return;
  Track& track = found->second;
  if (const auto* started = std::get_if<SpeechStarted>(&event)) {
    on_speech_started(track, started->time, actions);
  } else if (const auto* stopped = std::get_if<SpeechStopped>(&event)) {
    on_speech_stopped(track, stopped->time, actions);
  } else if (const auto* partial = std::get_if<Partial>(&event)) {
    on_partial(track, *partial, actions);
  } else if (const auto* final = std::get_if<Final>(&event)) {
    on_final(track, *final, actions);
  } else if (std::holds_alternative<Done>(event)) {
    on_track_closed(index, {"stopped", "the stream ended"}, actions);
  } else if (const auto* failed = std::get_if<ErrorEvent>(&event)) {
    const bool is_listening = listening_ == index;
    on_track_closed(index, failed->error, actions);
    if (!is_listening) return;
    say_error("server_error", {failed->error.code, failed->error.message, ""}, "", actions);
    actions.emplace_back(Close{close_reason(failed->error.code), failed->error.message});
  }
}

void OpenAiRealtimeDialect::on_speech_started(Track& track, double time, Actions& actions) {
  if (track.speaking || time < track.cleared) return;
  track.speaking = true;
  const Item& item = open_item(track);
  const double padding = session_.turn_detection ? session_.turn_detection->prefix_padding_ms / 1000.0 : 0.0;
  say_voice("speech_started", "audio_start_ms", track.begin + std::max(0.0, time - padding), item, actions);
}

void OpenAiRealtimeDialect::on_speech_stopped(Track& track, double time, Actions& actions) {
  if (!std::exchange(track.speaking, false)) return;
  say_voice("speech_stopped", "audio_end_ms", track.begin + time, open_item(track), actions);
}

void OpenAiRealtimeDialect::on_partial(Track& track, const Partial& partial, Actions& actions) {
  if (partial.text.empty()) return;
  if (track.committing.empty() && partial.end <= track.cleared) return;
  Item& item = track.committing.empty() ? open_item(track) : track.committing.front();
  const std::string text = item.text.empty() ? partial.text : item.text + " " + partial.text;
  say_delta(item, item.deltas.extend(text), actions);
}

void OpenAiRealtimeDialect::on_final(Track& track, const Final& final, Actions& actions) {
  if (track.committing.empty()) {
    if (final.end > track.cleared && !final.text.empty()) end_turn(track, final, actions);
    return;
  }
  // Before the final of a commit there may be those of segments within it.
  Item& item = track.committing.front();
  if (!final.text.empty()) item.text += (item.text.empty() ? "" : " ") + final.text;
  if (final.reason != "finalize") return;
  Item whole = std::move(item);
  track.committing.pop_front();
  complete(std::move(whole), actions);
}

/// A segment's end is a turn's, or just one of many in what the client will commit.
void OpenAiRealtimeDialect::end_turn(Track& track, const Final& final, Actions& actions) {
  Item& open = open_item(track);
  open.text += (open.text.empty() ? "" : " ") + final.text;
  if (!track.has_turns) return;
  on_speech_stopped(track, final.end, actions);
  Item item = std::move(open);
  track.open.reset();
  commit(item, final.end, actions);
  track.committed = std::clamp(track.bytes(final.end), track.committed, track.received);
  complete(std::move(item), actions);
}

/// Each commit gets its end, whatever became of its stream.
void OpenAiRealtimeDialect::on_track_closed(int index, const Error& reason, Actions& actions) {
  fail_items(tracks_.at(index), reason, actions);
  tracks_.erase(index);
  if (listening_ == index) listening_.reset();
}

void OpenAiRealtimeDialect::on_fault(const Error& error, Actions& actions) {
  for (auto& [index, track] : tracks_) fail_items(track, error, actions);
  tracks_.clear();
  listening_.reset();
  say_error("server_error", {error.code, error.message, ""}, "", actions);
}

Item& OpenAiRealtimeDialect::open_item(Track& track) {
  if (!track.open) {
    track.open =
        Item{.id = next_id("item"), .text = {}, .deltas = {}, .start = track.seconds(track.committed)};
  }
  return *track.open;
}

void OpenAiRealtimeDialect::commit(Item& item, double end, Actions& actions) {
  item.end = std::max(end, item.start);
  JsonWriter json = begin_event("input_audio_buffer.committed");
  json.key("previous_item_id");
  if (last_item_.empty()) {
    json.null();
  } else {
    json.string(last_item_);
  }
  json.key("item_id").string(item.id).end_object();
  last_item_ = item.id;
  actions.emplace_back(Reply{std::move(json).take()});
}

void OpenAiRealtimeDialect::complete(Item item, Actions& actions) {
  say_delta(item, item.deltas.finish(item.text), actions);
  JsonWriter json = begin_event("conversation.item.input_audio_transcription.completed");
  json.key("item_id").string(item.id).key("content_index").integer(0).key("transcript").string(item.text);
  json.key("usage").begin_object().key("type").string("duration");
  json.key("seconds").decimal(item.end - item.start).end_object().end_object();
  actions.emplace_back(Reply{std::move(json).take()});
}

void OpenAiRealtimeDialect::say_delta(const Item& item, std::string_view delta, Actions& actions) {
  if (delta.empty()) return;
  JsonWriter json = begin_event("conversation.item.input_audio_transcription.delta");
  json.key("item_id").string(item.id).key("content_index").integer(0).key("delta").string(delta).end_object();
  actions.emplace_back(Reply{std::move(json).take()});
}

void OpenAiRealtimeDialect::fail_items(Track& track, const Error& reason, Actions& actions) {
  for (const Item& item : track.committing) {
    JsonWriter json = begin_event("conversation.item.input_audio_transcription.failed");
    json.key("item_id").string(item.id).key("content_index").integer(0).key("error").begin_object();
    json.key("type").string("transcription_error").key("code").string(reason.code);
    json.key("message").string(reason.message).key("param").null().end_object().end_object();
    actions.emplace_back(Reply{std::move(json).take()});
  }
  track.committing.clear();
}

JsonWriter OpenAiRealtimeDialect::begin_event(std::string_view type) {
  JsonWriter json;
  json.begin_object().key("type").string(type).key("event_id").string(next_id("event"));
  return json;
}

void OpenAiRealtimeDialect::say_session(std::string_view type, SessionForm form, Actions& actions) {
  JsonWriter json = begin_event(type);
  json.key("session").begin_object();
  if (form == SessionForm::nested) json.key("type").string("transcription");
  json.key("object").string("realtime.transcription_session").key("id").string("sess_" + session_id_);
  write_session(json, session_, form);
  json.end_object().end_object();
  actions.emplace_back(Reply{std::move(json).take()});
}

void OpenAiRealtimeDialect::say_voice(std::string_view type, std::string_view time_name, double seconds,
                                      const Item& item, Actions& actions) {
  JsonWriter json = begin_event(fmt::format("input_audio_buffer.{}", type));
  json.key(time_name).integer(std::llround(seconds * 1000)).key("item_id").string(item.id).end_object();
  actions.emplace_back(Reply{std::move(json).take()});
}

void OpenAiRealtimeDialect::say_error(std::string_view type, const EventError& error,
                                      std::string_view client_event_id, Actions& actions) {
  JsonWriter json = begin_event("error");
  const auto string_or_null = [&json](std::string_view name, std::string_view value) {
    json.key(name);
    value.empty() ? json.null() : json.string(value);
  };
  json.key("error").begin_object().key("type").string(type).key("code").string(error.code);
  json.key("message").string(error.message);
  string_or_null("param", error.param);
  string_or_null("event_id", client_event_id);
  json.end_object().end_object();
  actions.emplace_back(Reply{std::move(json).take()});
}

std::string requested_model(std::string_view query) {
  const auto parameters = parse_query(query);
  if (!parameters) return {};
  const auto found = std::ranges::find(*parameters, "model", &std::pair<std::string, std::string>::first);
  return found == parameters->end() ? std::string() : found->second;
}

/// Browsers offer `realtime` before the names that carry their key.
std::string chosen_subprotocol(const Handshake& handshake) {
  const auto offered = handshake.subprotocols();
  return std::ranges::find(offered, "realtime") == offered.end() ? "" : "realtime";
}

}  // namespace

Acceptance accept_openai_realtime(const Handshake& handshake) {
  // Clients of the beta know the event by another name.
  const bool is_beta = handshake.header("OpenAI-Beta").find("realtime=v1") != std::string_view::npos;
  return Accepted{
      .dialect = std::make_unique<OpenAiRealtimeDialect>(
          handshake, is_beta ? SessionForm::flat : SessionForm::nested, requested_model(handshake.query)),
      .subprotocol = chosen_subprotocol(handshake),
      .headers = {}};
}

}  // namespace tutti::proto
