#include "proto/audiohook.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string>
#include <utility>

#include "config/json_writer.hpp"
#include "proto/channel_splitter.hpp"
#include "proto/json_message.hpp"
#include "proto/parameter.hpp"
#include "proto/stream_position.hpp"
#include "proto/uuid.hpp"

namespace tutti::proto {
namespace {

using simdjson::dom::object;

constexpr size_t max_message_bytes = 65'535;
constexpr int the_rate = 8000;
constexpr size_t uuid_length = 36;
constexpr std::string_view null_uuid = "00000000-0000-0000-0000-000000000000";
// Clients send a ping every 5 s.
constexpr std::chrono::seconds longest_silence{30};

/// "PT1.5S": seconds; nothing for what is no such duration.
std::optional<double> parse_duration(std::string_view text) {
  if (!text.starts_with("PT") || !text.ends_with("S") || text.size() < 4) return std::nullopt;
  text = text.substr(2, text.size() - 3);
  if (text.find_first_not_of("0123456789.") != std::string_view::npos) return std::nullopt;
  double seconds = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), seconds, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return seconds;
}

std::string write_duration(double seconds) { return fmt::format("PT{:.3f}S", std::max(0.0, seconds)); }

/// One of the media that a client offers.
struct Media {
  Encoding encoding = Encoding::mulaw;
  std::string_view format;  // its name on the wire
  std::vector<std::string> channels;
};

std::optional<Media> read_media(const simdjson::dom::element& element) {
  object offer;
  if (element.get_object().get(offer) != simdjson::SUCCESS) return std::nullopt;
  Media media;
  const auto format = string_in(offer, "format").value_or("");
  if (format == "PCMU") {
    media.format = "PCMU";
  } else if (format == "L16") {
    media.encoding = Encoding::pcm_s16le;
    media.format = "L16";
  } else {
    return std::nullopt;
  }
  if (string_in(offer, "type") != "audio" || integer_in(offer, "rate") != the_rate) return std::nullopt;
  const auto channels = array_in(offer, "channels");
  if (!channels) return std::nullopt;
  for (const auto channel : *channels) {
    std::string_view name;
    if (channel.get_string().get(name) != simdjson::SUCCESS) return std::nullopt;
    if (name != "external" && name != "internal") return std::nullopt;
    if (media.channels.size() == 2) return std::nullopt;
    media.channels.emplace_back(name);
  }
  if (media.channels.empty()) return std::nullopt;
  return media;
}

class AudioHookDialect final : public Dialect {
 public:
  explicit AudioHookDialect(std::string id) : id_(std::move(id)) {}

  void on_text(std::string_view message, Actions& actions) override;
  void on_binary(std::span<const std::byte> bytes, bool ends_message, Actions& actions) override;
  void on_event(int track, const ServerEvent& event, Actions& actions) override;
  [[nodiscard]] std::optional<std::chrono::milliseconds> idle_limit() const override {
    return longest_silence;
  }
  void on_idle(Actions& actions) override;
  void on_fault(const Error& error, Actions& actions) override {
    disconnect(error.code == "draining" || error.code == "stopped" ? "completed" : "error", error.message,
               actions);
  }

 private:
  /// `failed`: a disconnect was sent, and only the client's close is waited for.
  enum class State { preparing, active, paused, closing, closed, failed };

  [[nodiscard]] Result<void> check(const object& message);
  void on_message(std::string_view type, const object& parameters, Actions& actions);
  void on_open(const object& parameters, Actions& actions);
  void on_close(Actions& actions);
  void on_gap(const object& parameters);
  void on_transcript(int track, std::string_view text, double start, double end, const Final* final,
                     Actions& actions);
  void on_done(Actions& actions);
  void write_tokens(JsonWriter& json, std::span<const WordTime> words) const;

  [[nodiscard]] int tracks() const { return splitter_ ? static_cast<int>(media_->channels.size()) : 0; }
  void disconnect(std::string_view reason, std::string_view info, Actions& actions);
  void client_error(const Error& error, Actions& actions);
  JsonWriter begin_message(std::string_view type);
  static void end_message(JsonWriter&& json, Actions& actions) {
    json.end_object().end_object();
    actions.emplace_back(Reply{std::move(json).take()});
  }
  void say_empty(std::string_view type, Actions& actions) { end_message(begin_message(type), actions); }

  std::string id_;  // of the session; empty until the client has said it
  State state_ = State::preparing;
  int64_t seq_ = 0;
  int64_t client_seq_ = 0;
  std::optional<Media> media_;
  std::optional<ChannelSplitter> splitter_;  // once there is audio, and tracks
  int64_t received_ = 0;                     // bytes
  StreamPosition position_;
  int open_tracks_ = 0;
  std::array<int, 2> segments_{};
};

void AudioHookDialect::on_text(std::string_view message, Actions& actions) {
  const auto json = JsonMessage::parse(message, max_message_bytes);
  if (!json) return client_error(json.error(), actions);
  const object& fields = json->object();
  const auto type = string_in(fields, "type").value_or("");
  if (auto checked = check(fields); !checked) {
    // After a disconnect the client closes, whatever its count has come to.
    if (state_ == State::failed && type == "close") return on_close(actions);
    return client_error(checked.error(), actions);
  }
  on_message(type, *object_in(fields, "parameters"), actions);
}

/// The rules for what all messages have in common.
Result<void> AudioHookDialect::check(const object& message) {
  const auto id = string_in(message, "id");
  const auto seq = integer_in(message, "seq");
  const auto server_seq = integer_in(message, "serverseq");
  const auto position = string_in(message, "position");
  if (string_in(message, "version") != "2" || !string_in(message, "type") || !id ||
      id->size() != uuid_length || !seq || !server_seq || *server_seq < 0 || !position ||
      !parse_duration(*position) || !object_in(message, "parameters")) {
    return fail("bad_message",
                "a message has version \"2\", id, type, seq, serverseq, position and parameters");
  }
  if (*seq != client_seq_ + 1) {
    return fail("bad_message",
                fmt::format("seq is {}; after {} comes {}", *seq, client_seq_, client_seq_ + 1));
  }
  client_seq_ = *seq;
  if (*server_seq > seq_) {
    return fail("bad_message",
                fmt::format("serverseq is {}, but the server has sent {} messages", *server_seq, seq_));
  }
  if (id_.empty() || id_ == null_uuid) id_ = *id;
  if (*id != id_) return fail("bad_message", "id is not that of this session");
  return {};
}

void AudioHookDialect::on_message(std::string_view type, const object& parameters, Actions& actions) {
  if (type == "close") return on_close(actions);
  if (type == "ping") return say_empty("pong", actions);
  if (state_ == State::failed) return;
  if (type == "open") return on_open(parameters, actions);
  if (type == "update") return say_empty("updated", actions);
  if (type == "paused" && state_ == State::active) {
    state_ = State::paused;
    for (int track = 0; track < tracks(); ++track) actions.emplace_back(FinalizeTrack{track});
  } else if (type == "resumed") {
    if (state_ == State::paused) state_ = State::active;
    on_gap(parameters);
  } else if (type == "discarded") {
    on_gap(parameters);
  } else if (type != "paused" && type != "error") {
    actions.emplace_back(Ignored{{"unknown_type", fmt::format("type is {}", shown(type))}});
  }
}

void AudioHookDialect::on_open(const object& parameters, Actions& actions) {
  if (state_ != State::preparing) {
    actions.emplace_back(Ignored{{"bad_message", "the session was opened before"}});
    return;
  }
  const auto offers = array_in(parameters, "media");
  if (!offers) return client_error({"bad_message", "open has no media"}, actions);
  for (const auto offer : *offers) {
    media_ = read_media(offer);
    if (media_) break;
  }
  if (!media_) {
    return client_error({"bad_encoding",
                         "none of the media can be served; accepted are PCMU and L16 at 8000 Hz, with the "
                         "channels external and internal"},
                        actions);
  }
  state_ = State::active;
  JsonWriter json = begin_message("opened");
  json.key("startPaused").boolean(false).key("media").begin_array().begin_object();
  json.key("type").string("audio").key("format").string(media_->format).key("channels").begin_array();
  for (const std::string& channel : media_->channels) json.string(channel);
  json.end_array().key("rate").integer(the_rate).end_object().end_array();
  if (flag_in(parameters, "supportedLanguages").value_or(false)) {
    json.key("supportedLanguages").begin_array().end_array();
  }
  end_message(std::move(json), actions);
}

void AudioHookDialect::on_binary(std::span<const std::byte> bytes, bool /*ends_message*/, Actions& actions) {
  if (state_ == State::preparing) return client_error({"bad_message", "audio came before open"}, actions);
  // What comes after the end is passed on to be counted as ignored.
  if (state_ == State::closing) actions.emplace_back(TrackAudio{0, {bytes.begin(), bytes.end()}});
  if (state_ != State::active || bytes.empty()) return;
  if (!splitter_) {
    splitter_.emplace(bytes_per_sample(media_->encoding), static_cast<int>(media_->channels.size()));
    StreamRequest request;
    request.format.encoding = media_->encoding;
    request.sample_rate = the_rate;
    for (int track = 0; track < tracks(); ++track) actions.emplace_back(OpenTrack{track, request});
    open_tracks_ = tracks();
  }
  received_ += static_cast<int64_t>(bytes.size());
  int track = 0;
  for (auto& part : splitter_->split(bytes)) {
    if (!part.empty()) actions.emplace_back(TrackAudio{.track = track, .bytes = std::move(part)});
    ++track;
  }
}

/// Audio that the client left out is part of the stream's time all the same.
void AudioHookDialect::on_gap(const object& parameters) {
  const auto start = parse_duration(string_in(parameters, "start").value_or(""));
  const auto discarded = parse_duration(string_in(parameters, "discarded").value_or(""));
  if (!start || !discarded || !media_) return;
  const auto frame_bytes = static_cast<int64_t>(media_->channels.size()) * bytes_per_sample(media_->encoding);
  const double heard = static_cast<double>(received_ / frame_bytes) / the_rate;
  position_.jump(heard, *start + *discarded);
}

void AudioHookDialect::on_close(Actions& actions) {
  if (state_ == State::closing || state_ == State::closed) return;
  state_ = State::closing;
  for (int track = 0; track < tracks(); ++track) actions.emplace_back(EndTrack{track});
  if (open_tracks_ == 0) on_done(actions);
}

/// All that was said has been told: the client may go.
void AudioHookDialect::on_done(Actions& actions) {
  if (state_ == State::closing) {
    state_ = State::closed;
    say_empty("closed", actions);
  } else {
    disconnect("completed", "the server is shutting down", actions);
  }
}

void AudioHookDialect::on_event(int track, const ServerEvent& event, Actions& actions) {
  if (const auto* partial = std::get_if<Partial>(&event)) {
    on_transcript(track, partial->text, partial->start, partial->end, nullptr, actions);
  } else if (const auto* final = std::get_if<Final>(&event)) {
    on_transcript(track, final->text, final->start, final->end, final, actions);
    ++segments_[static_cast<size_t>(track)];
  } else if (std::holds_alternative<Done>(event)) {
    if (--open_tracks_ == 0) on_done(actions);
  } else if (const auto* failed = std::get_if<ErrorEvent>(&event)) {
    --open_tracks_;
    if (state_ == State::closing && open_tracks_ == 0) return on_done(actions);
    disconnect("error", failed->error.message, actions);
  }
}

// Not as a partial that may give way: the client counts the messages.
void AudioHookDialect::on_transcript(int track, std::string_view text, double start, double end,
                                     const Final* final, Actions& actions) {
  if (text.empty() || state_ == State::failed || state_ == State::closed) return;
  const auto channel = static_cast<size_t>(track);
  const double offset = position_.at(start);
  JsonWriter json = begin_message("event");
  json.key("entities").begin_array().begin_object().key("type").string("transcript");
  json.key("data").begin_object();
  json.key("id").string(uuid_of(fmt::format("{}/{}/{}", id_, track, segments_[channel])));
  json.key("channelId").integer(track).key("channel").string(media_->channels[channel]);
  json.key("isFinal").boolean(final != nullptr).key("offset").string(write_duration(offset));
  json.key("duration").string(write_duration(position_.at(end) - offset));
  json.key("alternatives").begin_array().begin_object();
  json.key("confidence").decimal(final != nullptr ? double{final->confidence} : 0.0);
  json.key("interpretations").begin_array().begin_object().key("type").string("display");
  json.key("transcript").string(text);
  if (final != nullptr) write_tokens(json, final->words);
  json.end_object().end_array().end_object().end_array().end_object().end_object().end_array();
  end_message(std::move(json), actions);
}

void AudioHookDialect::write_tokens(JsonWriter& json, std::span<const WordTime> words) const {
  json.key("tokens").begin_array();
  for (const WordTime& word : words) {
    const double offset = position_.at(word.start);
    json.begin_object().key("type").string("word").key("value").string(word.word);
    json.key("confidence").decimal(word.confidence).key("offset").string(write_duration(offset));
    json.key("duration").string(write_duration(position_.at(word.end) - offset)).end_object();
  }
  json.end_array();
}

void AudioHookDialect::client_error(const Error& error, Actions& actions) {
  actions.emplace_back(Ignored{error});
  if (state_ != State::closing) disconnect("error", "Client error: " + error.message, actions);
}

/// Once: the client answers with its close.
void AudioHookDialect::disconnect(std::string_view reason, std::string_view info, Actions& actions) {
  if (state_ == State::failed || state_ == State::closed) return;
  state_ = State::failed;
  JsonWriter json = begin_message("disconnect");
  json.key("reason").string(reason).key("info").string(info);
  end_message(std::move(json), actions);
}

void AudioHookDialect::on_idle(Actions& actions) {
  if (state_ == State::closed || state_ == State::failed) {
    actions.emplace_back(Close{});
    return;
  }
  actions.emplace_back(Close{.code = CloseReason::policy,
                             .message = fmt::format("no message for {} s", longest_silence.count()),
                             .error_code = "idle_timeout"});
}

/// Up to where the parameters go; end_message closes it.
JsonWriter AudioHookDialect::begin_message(std::string_view type) {
  JsonWriter json;
  json.begin_object().key("version").string("2").key("type").string(type).key("seq").integer(++seq_);
  json.key("clientseq").integer(client_seq_).key("id").string(id_.empty() ? null_uuid : id_);
  json.key("parameters").begin_object();
  return json;
}

}  // namespace

Acceptance accept_audiohook(const Handshake& handshake) {
  return Accepted{.dialect = std::make_unique<AudioHookDialect>(
                      std::string(handshake.header("Audiohook-Session-Id").substr(0, uuid_length))),
                  .subprotocol = {},
                  .headers = {}};
}

}  // namespace tutti::proto
