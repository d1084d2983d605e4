#include "proto/deepgram.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "audio/opus_framing.hpp"
#include "config/json_writer.hpp"
#include "config/sha256_stream.hpp"
#include "config/utf8.hpp"
#include "proto/channel_splitter.hpp"
#include "proto/json_message.hpp"
#include "proto/parameter.hpp"
#include "proto/uuid.hpp"

namespace tutti::proto {
namespace {

constexpr size_t max_message_bytes = 64 * 1024;
constexpr std::chrono::seconds longest_silence{10};

/// The text of one result.
struct Alternative {
  std::string_view text;
  double confidence = 0;
  std::span<const WordTime> words;
};

/// What a result says of itself.
struct Flags {
  bool is_final = false;
  bool speech_final = false;
  bool from_finalize = false;
};

class DeepgramDialect final : public Dialect {
 public:
  DeepgramDialect(const Handshake& handshake, const DeepgramRequest& request)
      : request_(request),
        request_id_(handshake.session),
        opened_(handshake.time),
        sample_bytes_(bytes_per_sample(request.stream.format.encoding)),
        splitter_(sample_bytes_, request.tracks()),
        tracks_(static_cast<size_t>(request.tracks())) {}

  void on_open(Actions& actions) override;
  void on_text(std::string_view message, Actions& actions) override;
  void on_binary(std::span<const std::byte> bytes, bool ends_message, Actions& actions) override;
  void on_event(int track, const ServerEvent& event, Actions& actions) override;
  void on_heard(int track, int64_t bytes, Actions& actions) override;
  [[nodiscard]] std::optional<std::chrono::milliseconds> idle_limit() const override {
    return longest_silence;
  }
  void on_idle(Actions& actions) override;
  void on_fault(const Error& error, Actions& actions) override;

 private:
  struct Track {
    double results_end = 0;     // seconds: up to where results have been final
    double heard = 0;           // seconds: up to where audio has been recognized
    double last_word_end = 0;   // seconds
    bool in_utterance = false;  // words since the last UtteranceEnd
    bool done = false;
  };

  template <class Command>
  void for_each_track(Actions& actions) const {
    for (size_t i = 0; i < tracks_.size(); ++i) actions.emplace_back(Command{static_cast<int>(i)});
  }
  [[nodiscard]] Track& track(int index) { return tracks_[static_cast<size_t>(index)]; }

  void close_stream(Actions& actions);
  void on_ready(const Ready& ready) { model_ = ready.model; }
  void on_speech_started(int index, const SpeechStarted& event, Actions& actions);
  void on_partial(int index, const Partial& partial, Actions& actions);
  void on_final(int index, const Final& final, Actions& actions);
  void on_done(int index, const Done& done, Actions& actions);
  void note_words(Track& track, std::string_view text, double end);

  [[nodiscard]] Reply results(int index, double start, double end, const Alternative& alternative,
                              Flags flags) const;
  void write_model_info(JsonWriter& json) const;
  [[nodiscard]] std::string metadata();
  [[nodiscard]] static Reply error(std::string_view variant, std::string_view description);

  DeepgramRequest request_;
  std::string request_id_;
  std::chrono::system_clock::time_point opened_;
  int sample_bytes_;
  ChannelSplitter splitter_;
  OpusFramer framer_;
  std::vector<Track> tracks_;
  Sha256Stream digest_;  // of all audio: the last message shows it
  std::string model_;
  double duration_ = 0;
  bool message_has_audio_ = false;  // the binary message in progress
  bool closing_ = false;
};

void DeepgramDialect::on_open(Actions& actions) {
  for (size_t i = 0; i < tracks_.size(); ++i) {
    actions.emplace_back(OpenTrack{.track = static_cast<int>(i), .request = request_.stream});
  }
}

void DeepgramDialect::on_text(std::string_view message, Actions& actions) {
  const auto ignore = [&actions](Error reason) {
    actions.emplace_back(error("UNPARSABLE_CLIENT_MESSAGE", reason.message));
    actions.emplace_back(Ignored{std::move(reason)});
  };
  const auto json = JsonMessage::parse(message, max_message_bytes);
  if (!json) return ignore(json.error());
  constexpr std::string_view accepted = "accepted are KeepAlive, Finalize and CloseStream";
  const auto type = string_in(json->object(), "type");
  if (!type) return ignore({"bad_message", fmt::format("the message has no \"type\"; {}", accepted)});
  if (*type == "KeepAlive" || *type == "Configure") return;
  if (*type == "Finalize") return for_each_track<FinalizeTrack>(actions);
  if (*type == "CloseStream") return close_stream(actions);
  ignore({"unknown_type", fmt::format("\"type\" is {}; {}", shown(*type), accepted)});
}

void DeepgramDialect::on_binary(std::span<const std::byte> bytes, bool ends_message, Actions& actions) {
  message_has_audio_ = message_has_audio_ || !bytes.empty();
  // An empty message is how older clients say CloseStream.
  if (ends_message && !std::exchange(message_has_audio_, false)) return close_stream(actions);
  if (!closing_) digest_.add(bytes);
  // What comes after the end is passed on to be counted as ignored.
  if (!request_.multichannel || closing_) {
    auto audio = request_.stream.coding == AudioCoding::opus_packets
                     ? framer_.add(bytes, ends_message)
                     : std::vector<std::byte>(bytes.begin(), bytes.end());
    if (!audio.empty()) actions.emplace_back(TrackAudio{.track = 0, .bytes = std::move(audio)});
    return;
  }
  int index = 0;
  for (auto& part : splitter_.split(bytes)) {
    if (!part.empty()) actions.emplace_back(TrackAudio{.track = index, .bytes = std::move(part)});
    ++index;
  }
}

void DeepgramDialect::close_stream(Actions& actions) {
  if (std::exchange(closing_, true)) return;
  for_each_track<EndTrack>(actions);
}

void DeepgramDialect::on_event(int index, const ServerEvent& event, Actions& actions) {
  if (const auto* ready = std::get_if<Ready>(&event)) return on_ready(*ready);
  if (const auto* started = std::get_if<SpeechStarted>(&event)) {
    return on_speech_started(index, *started, actions);
  }
  if (const auto* partial = std::get_if<Partial>(&event)) return on_partial(index, *partial, actions);
  if (const auto* final = std::get_if<Final>(&event)) return on_final(index, *final, actions);
  if (const auto* done = std::get_if<Done>(&event)) return on_done(index, *done, actions);
  if (const auto* failed = std::get_if<ErrorEvent>(&event)) {
    on_fault(failed->error, actions);
    actions.emplace_back(Close{close_reason(failed->error.code), failed->error.message});
  }
}

void DeepgramDialect::on_speech_started(int index, const SpeechStarted& event, Actions& actions) {
  JsonWriter json;
  json.begin_object().key("type").string("SpeechStarted").key("channel").begin_array();
  json.integer(index).end_array().key("timestamp").decimal(event.time).end_object();
  actions.emplace_back(Reply{std::move(json).take()});
}

void DeepgramDialect::note_words(Track& track, std::string_view text, double end) {
  if (text.empty()) return;
  track.last_word_end = end;
  track.in_utterance = true;
}

void DeepgramDialect::on_partial(int index, const Partial& partial, Actions& actions) {
  note_words(track(index), partial.text, partial.end);
  const double start = track(index).results_end;
  auto reply = results(index, start, std::max({start, partial.end, track(index).heard}),
                       {.text = partial.text, .confidence = 0, .words = {}}, {});
  reply.is_partial = true;
  actions.emplace_back(std::move(reply));
}

void DeepgramDialect::on_final(int index, const Final& final, Actions& actions) {
  Track& of = track(index);
  note_words(of, final.text, final.end);
  const double start = of.results_end;
  of.results_end = std::max({start, final.end, of.heard});
  actions.emplace_back(results(index, start, of.results_end,
                               {.text = final.text,
                                .confidence = final.text.empty() ? 0.0 : double{final.confidence},
                                .words = final.words},
                               {.is_final = true,
                                .speech_final = request_.speech_final && final.reason != "length",
                                .from_finalize = final.reason == "finalize"}));
}

void DeepgramDialect::on_heard(int index, int64_t bytes, Actions& actions) {
  Track& of = track(index);
  const StreamRequest& stream = request_.stream;
  of.heard =
      static_cast<double>(bytes / (int64_t{sample_bytes_} * stream.format.channels)) / stream.sample_rate;
  if (!request_.utterance_end_ms || !of.in_utterance) return;
  if (of.heard < of.last_word_end + *request_.utterance_end_ms / 1000.0) return;
  of.in_utterance = false;
  JsonWriter json;
  json.begin_object().key("type").string("UtteranceEnd").key("channel").begin_array();
  json.integer(index).integer(request_.tracks()).end_array();
  json.key("last_word_end").decimal(of.last_word_end).end_object();
  actions.emplace_back(Reply{std::move(json).take()});
}

void DeepgramDialect::on_done(int index, const Done& done, Actions& actions) {
  track(index).done = true;
  duration_ = std::max(duration_, done.audio_seconds);
  if (!std::ranges::all_of(tracks_, &Track::done)) return;
  actions.emplace_back(Reply{metadata()});
  if (closing_) actions.emplace_back(Close{CloseReason::normal, ""});
}

void DeepgramDialect::on_idle(Actions& actions) {
  actions.emplace_back(Close{.code = CloseReason::internal,
                             .message = "NET-0001: no audio and no KeepAlive for 10 s",
                             .error_code = "idle_timeout"});
}

void DeepgramDialect::on_fault(const Error& fault, Actions& actions) {
  actions.emplace_back(error(fault.code, fault.message));
}

Reply DeepgramDialect::results(int index, double start, double end, const Alternative& alternative,
                               Flags flags) const {
  JsonWriter json;
  json.begin_object().key("type").string("Results").key("channel_index").begin_array();
  json.integer(index).integer(request_.tracks()).end_array();
  json.key("duration").decimal(end - start).key("start").decimal(start);
  json.key("is_final").boolean(flags.is_final).key("speech_final").boolean(flags.speech_final);
  json.key("channel").begin_object().key("alternatives").begin_array().begin_object();
  json.key("transcript").string(alternative.text).key("confidence").decimal(alternative.confidence);
  json.key("words").begin_array();
  for (const WordTime& word : alternative.words) {
    json.begin_object().key("word").string(word.word).key("start").decimal(word.start);
    json.key("end").decimal(word.end).key("confidence").decimal(word.confidence);
    json.key("punctuated_word").string(word.word).end_object();
  }
  json.end_array().end_object().end_array().end_object();
  json.key("metadata").begin_object().key("request_id").string(request_id_);
  json.key("model_info");
  write_model_info(json);
  json.key("model_uuid").string(uuid_of(model_)).end_object();
  json.key("from_finalize").boolean(flags.from_finalize).end_object();
  return Reply{std::move(json).take()};
}

void DeepgramDialect::write_model_info(JsonWriter& json) const {
  json.begin_object().key("name").string(model_).key("version").string("").key("arch").string("");
  json.end_object();
}

std::string DeepgramDialect::metadata() {
  JsonWriter json;
  json.begin_object().key("type").string("Metadata").key("transaction_key").string("deprecated");
  json.key("request_id").string(request_id_).key("sha256").string(to_hex(digest_.finish()));
  json.key("created").string(
      fmt::format("{:%FT%TZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(opened_))));
  json.key("duration").decimal(duration_).key("channels").integer(request_.channels);
  json.key("models").begin_array().string(uuid_of(model_)).end_array();
  json.key("model_info").begin_object().key(uuid_of(model_));
  write_model_info(json);
  json.end_object().end_object();
  return std::move(json).take();
}

Reply DeepgramDialect::error(std::string_view variant, std::string_view description) {
  JsonWriter json;
  json.begin_object().key("type").string("Error").key("variant").string(variant);
  json.key("description").string(description).key("message").string(description).end_object();
  return Reply{std::move(json).take()};
}

Refused refuse(const Error& error, const std::string& request_id) {
  JsonWriter json;
  json.begin_object().key("err_code").string(error.code).key("err_msg").string(error.message);
  json.key("request_id").string(request_id).end_object();
  return {.status = 400,
          .body = std::move(json).take(),
          .headers = {{"dg-request-id", request_id}, {"dg-error", single_line(error.message)}}};
}

}  // namespace

Acceptance accept_deepgram(const Handshake& handshake) {
  const auto request = parse_deepgram_request(handshake.query);
  if (!request) return refuse(request.error(), handshake.session);
  return Accepted{.dialect = std::make_unique<DeepgramDialect>(handshake, *request),
                  .subprotocol = {},
                  .headers = {{"dg-request-id", handshake.session}}};
}

}  // namespace tutti::proto
