#include "proto/vosk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <type_traits>
#include <utility>

#include "audio/resampler.hpp"
#include "config/json_writer.hpp"
#include "proto/json_message.hpp"

namespace tutti::proto {
namespace {

constexpr int the_track = 0;
constexpr int usual_sample_rate = 8000;
constexpr size_t max_text_bytes = 64 << 10;  // a phrase list may be long
// Messages whose reply waits for the recognizer: more than the credit of a client that sends real audio
// holds.
constexpr size_t max_waiting_replies = 8192;

struct Options {
  int sample_rate = usual_sample_rate;
  bool words = true;
  int max_alternatives = 0;
};

/// A flag, or the number that stands for one.
std::optional<bool> truth_in(const simdjson::dom::object& object, std::string_view name) {
  if (const auto flag = flag_in(object, name)) return flag;
  if (const auto number = number_in(object, name)) return *number != 0;
  return std::nullopt;
}

bool is_set(const simdjson::dom::object& object, std::string_view name) {
  return truth_in(object, name).value_or(false);
}

void write_words(JsonWriter& json, const Final& final, bool with_confidence) {
  json.key("result").begin_array();
  for (const WordTime& word : final.words) {
    json.begin_object();
    if (with_confidence) json.key("conf").decimal(word.confidence);
    json.key("end").decimal(word.end).key("start").decimal(word.start).key("word").string(word.word);
    json.end_object();
  }
  json.end_array();
}

std::string write_partial(std::string_view text) {
  JsonWriter json;
  json.begin_object().key("partial").string(text).end_object();
  return std::move(json).take();
}

std::string write_result(const Final& final, const Options& options) {
  const bool has_words = options.words && !final.words.empty();
  JsonWriter json;
  json.begin_object();
  if (options.max_alternatives > 0) {
    json.key("alternatives").begin_array().begin_object();
    json.key("confidence").decimal(final.confidence);
    if (has_words) write_words(json, final, false);
    json.key("text").string(final.text).end_object().end_array();
  } else {
    if (has_words) write_words(json, final, true);
    json.key("text").string(final.text);
  }
  json.end_object();
  return std::move(json).take();
}

/// Several segments in one reply, when several were closed since the last.
void append(Final& all, const Final& next) {
  if (next.text.empty()) return;
  if (all.text.empty()) {
    all = next;
    return;
  }
  all.text += ' ' + next.text;
  all.confidence = std::min(all.confidence, next.confidence);
  all.words.insert(all.words.end(), next.words.begin(), next.words.end());
}

class VoskDialect final : public Dialect {
 public:
  void on_text(std::string_view text, Actions& actions) override {
    const auto message = JsonMessage::parse(text, max_text_bytes);
    if (!message) {
      actions.emplace_back(Ignored{message.error()});
    } else if (const auto config = object_in(message->object(), "config")) {
      configure(*config, actions);
    } else if (is_set(message->object(), "eof")) {
      close_segment(EndTrack{the_track}, actions);
    } else if (is_set(message->object(), "reset")) {
      close_segment(FinalizeTrack{the_track}, actions);
    } else {
      actions.emplace_back(Ignored{{"unknown_type", "the message is not one of config, eof and reset"}});
    }
  }

  void on_binary(std::span<const std::byte> bytes, bool ends_message, Actions& actions) override {
    // What comes after the end is passed on to be counted as ignored, and has no reply.
    if (!ended_) open(actions);
    received_ += static_cast<int64_t>(bytes.size());
    actions.emplace_back(TrackAudio{the_track, {bytes.begin(), bytes.end()}});
    if (!ends_message || ended_) return;
    waiting_.push_back({.is_command = false, .position = received_});
    reply_to_heard(actions);
    if (waiting_.size() > max_waiting_replies) {
      actions.emplace_back(Close{CloseReason::policy, "too many messages wait for their reply", "overrun"});
    }
  }

  void on_event(int /*track*/, const ServerEvent& event, Actions& actions) override {
    if (const auto* partial = std::get_if<Partial>(&event)) {
      partial_ = partial->text;
    } else if (const auto* final = std::get_if<Final>(&event)) {
      on_final(*final, actions);
    } else if (std::holds_alternative<Done>(event)) {
      actions.emplace_back(Close{});
    } else if (const auto* failure = std::get_if<ErrorEvent>(&event)) {
      actions.emplace_back(Close{close_reason(failure->error.code), failure->error.message});
    }
  }

  void on_heard(int /*track*/, int64_t bytes, Actions& actions) override {
    heard_ = std::max(heard_, bytes);
    reply_to_heard(actions);
  }

  void on_fault(const Error& /*error*/, Actions& /*actions*/) override {}

 private:
  /// A message that has not been replied to.
  struct Waiting {
    bool is_command;   // its reply is its final
    int64_t position;  // else it comes when the audio up to here was heard
  };

  void configure(const simdjson::dom::object& config, Actions& actions) {
    if (const auto rate = number_in(config, "sample_rate"); rate && !is_open_) {
      if (!(*rate >= min_sample_rate && *rate <= max_sample_rate)) {
        actions.emplace_back(Close{
            CloseReason::policy,
            fmt::format("sample_rate is {}; accepted is {} to {}", *rate, min_sample_rate, max_sample_rate),
            "bad_sample_rate"});
        return;
      }
      options_.sample_rate = static_cast<int>(*rate);
    }
    options_.words = truth_in(config, "words").value_or(options_.words);
    const double alternatives = number_in(config, "max_alternatives").value_or(options_.max_alternatives);
    options_.max_alternatives = alternatives > 0 ? 1 : 0;  // one is all there is
  }

  void open(Actions& actions) {
    if (std::exchange(is_open_, true)) return;
    StreamRequest request;
    request.sample_rate = options_.sample_rate;
    actions.emplace_back(OpenTrack{the_track, request});
  }

  template <class Command>
  void close_segment(const Command& command, Actions& actions) {
    if (ended_) return;
    constexpr bool is_last = std::is_same_v<Command, EndTrack>;
    ended_ = is_last;
    if (is_open_) {
      waiting_.push_back({.is_command = true, .position = received_});
      actions.emplace_back(command);
      return;
    }
    // Nothing was said.
    actions.emplace_back(Reply{write_result({}, options_)});
    if (is_last) actions.emplace_back(Close{});
  }

  void on_final(const Final& final, Actions& actions) {
    if (final.reason == "finalize" || final.reason == "eof") {
      // It follows all that its command followed.
      heard_ = std::max(heard_, next_command());
      reply_to_heard(actions);
      append(closed_, final);
      if (!waiting_.empty()) waiting_.pop_front();
      reply_with_closed(actions);
    } else {
      append(closed_, final);
      has_closed_ = has_closed_ || !final.text.empty();
    }
    partial_.clear();
  }

  /// Where the audio before the next command ends.
  [[nodiscard]] int64_t next_command() const {
    for (const Waiting& each : waiting_) {
      if (each.is_command) return each.position;
    }
    return 0;
  }

  void reply_to_heard(Actions& actions) {
    while (!waiting_.empty() && !waiting_.front().is_command && waiting_.front().position <= heard_) {
      waiting_.pop_front();
      if (has_closed_) {
        reply_with_closed(actions);
      } else {
        actions.emplace_back(Reply{write_partial(partial_)});
      }
    }
  }

  void reply_with_closed(Actions& actions) {
    actions.emplace_back(Reply{write_result(std::exchange(closed_, {}), options_)});
    has_closed_ = false;
  }

  Options options_;
  bool is_open_ = false;
  bool ended_ = false;
  int64_t received_ = 0;
  int64_t heard_ = 0;
  std::deque<Waiting> waiting_;  // at most max_waiting_replies, and the session's commands
  std::string partial_;
  Final closed_;  // what was closed and not told
  bool has_closed_ = false;
};

}  // namespace

Acceptance accept_vosk(const Handshake& /*handshake*/) {
  return Accepted{.dialect = std::make_unique<VoskDialect>(), .subprotocol = {}, .headers = {}};
}

}  // namespace tutti::proto
