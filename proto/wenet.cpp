#include "proto/wenet.hpp"

#include <cmath>
#include <utility>

#include "config/json_writer.hpp"
#include "proto/json_message.hpp"

namespace tutti::proto {
namespace {

constexpr int the_track = 0;
constexpr size_t max_text_bytes = 4096;

std::string write_status(std::string_view type) {
  JsonWriter json;
  json.begin_object().key("status").string("ok").key("type").string(type).end_object();
  return std::move(json).take();
}

std::string write_failure(std::string_view message) {
  JsonWriter json;
  json.begin_object().key("status").string("failed").key("message").string(message).end_object();
  return std::move(json).take();
}

int64_t milliseconds(double seconds) { return std::llround(seconds * 1000); }

/// The list of hypotheses, of which there is one.
std::string write_nbest(std::string_view sentence, const std::vector<WordTime>* words) {
  JsonWriter json;
  json.begin_array().begin_object().key("sentence").string(sentence);
  if (words != nullptr) {
    json.key("word_pieces").begin_array();
    for (const WordTime& word : *words) {
      json.begin_object().key("word").string(word.word);
      json.key("start").integer(milliseconds(word.start)).key("end").integer(milliseconds(word.end));
      json.end_object();
    }
    json.end_array();
  }
  json.end_object().end_array();
  return std::move(json).take();
}

/// `nbest` is JSON within a JSON string.
std::string write_result(std::string_view type, std::string_view nbest) {
  JsonWriter json;
  json.begin_object().key("status").string("ok").key("type").string(type).key("nbest").string(nbest);
  json.end_object();
  return std::move(json).take();
}

class WenetDialect final : public Dialect {
 public:
  void on_text(std::string_view text, Actions& actions) override {
    const auto message = JsonMessage::parse(text, max_text_bytes);
    if (!message) return refuse(message.error(), actions);
    const auto signal = string_in(message->object(), "signal");
    if (signal == "start") return start(message->object(), actions);
    if (signal == "end") return end(actions);
    refuse({"unknown_type", "the message has no \"signal\", or another than \"start\" and \"end\""}, actions);
  }

  void on_binary(std::span<const std::byte> bytes, bool /*ends_message*/, Actions& actions) override {
    if (!is_started_) return refuse({"bad_message", "the start signal is expected before audio"}, actions);
    actions.emplace_back(TrackAudio{the_track, {bytes.begin(), bytes.end()}});
  }

  void on_event(int /*track*/, const ServerEvent& event, Actions& actions) override {
    if (const auto* partial = std::get_if<Partial>(&event)) {
      actions.emplace_back(Reply{write_result("partial_result", write_nbest(partial->text, nullptr)), true});
    } else if (const auto* final = std::get_if<Final>(&event)) {
      actions.emplace_back(Reply{write_result("final_result", write_nbest(final->text, &final->words))});
      if (!is_continuous_ && final->reason == "endpoint") finish(actions);
    } else if (std::holds_alternative<Done>(event)) {
      finish(actions);
    } else if (const auto* failure = std::get_if<ErrorEvent>(&event)) {
      actions.emplace_back(Reply{write_failure(failure->error.message)});
      actions.emplace_back(Close{close_reason(failure->error.code), failure->error.message});
    }
  }

  void on_fault(const Error& error, Actions& actions) override {
    actions.emplace_back(Reply{write_failure(error.message)});
  }

 private:
  void start(const simdjson::dom::object& message, Actions& actions) {
    if (is_started_) return refuse({"bad_message", "the session has been started before"}, actions);
    simdjson::dom::element given;
    const bool has_nbest = message["nbest"].get(given) == simdjson::SUCCESS;
    if (has_nbest && !integer_in(message, "nbest")) {
      return refuse({"bad_parameter", "nbest is not a whole number"}, actions);
    }
    const bool has_mode = message["continuous_decoding"].get(given) == simdjson::SUCCESS;
    const auto mode = flag_in(message, "continuous_decoding");
    if (has_mode && !mode) {
      return refuse({"bad_parameter", "continuous_decoding is not true or false"}, actions);
    }
    is_started_ = true;
    is_continuous_ = mode.value_or(false);
    actions.emplace_back(OpenTrack{the_track, {}});
    actions.emplace_back(Reply{write_status("server_ready")});
  }

  void end(Actions& actions) const {
    if (!is_started_) return refuse({"bad_message", "the start signal is expected before the end"}, actions);
    actions.emplace_back(EndTrack{the_track});
  }

  static void finish(Actions& actions) {
    actions.emplace_back(Reply{write_status("speech_end")});
    actions.emplace_back(Close{});
  }

  static void refuse(const Error& error, Actions& actions) {
    actions.emplace_back(Reply{write_failure(error.message)});
    actions.emplace_back(Close{CloseReason::policy, error.message, error.code});
  }

  bool is_started_ = false;
  bool is_continuous_ = false;
};

}  // namespace

Acceptance accept_wenet(const Handshake& /*handshake*/) {
  return Accepted{.dialect = std::make_unique<WenetDialect>(), .subprotocol = {}, .headers = {}};
}

}  // namespace tutti::proto
