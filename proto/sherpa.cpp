#include "proto/sherpa.hpp"

#include <utility>

#include "config/json_writer.hpp"

namespace tutti::proto {
namespace {

constexpr int the_track = 0;
constexpr int the_models_rate = 0;

struct Recognized {
  std::string_view text;
  const std::vector<WordTime>* words = nullptr;  // of a final
  int segment = 0;
  double start = 0;
  bool is_final = false;
  bool is_eof = false;
};

// Times are the segment's, which says when it starts itself.
std::string write_result(const Recognized& result) {
  JsonWriter json;
  json.begin_object().key("text").string(result.text);
  json.key("tokens").begin_array();
  if (result.words != nullptr) {
    for (const WordTime& word : *result.words) json.string(word.word);
  }
  json.end_array().key("timestamps").begin_array();
  if (result.words != nullptr) {
    for (const WordTime& word : *result.words) json.decimal(word.start - result.start);
  }
  json.end_array().key("segment").integer(result.segment);
  json.key("start_time").decimal(result.start);
  json.key("is_final").boolean(result.is_final).key("is_eof").boolean(result.is_eof).end_object();
  return std::move(json).take();
}

class SherpaDialect final : public Dialect {
 public:
  void on_open(Actions& actions) override {
    StreamRequest request;
    request.format.encoding = Encoding::pcm_f32le;
    request.sample_rate = the_models_rate;
    actions.emplace_back(OpenTrack{the_track, request});
  }

  void on_text(std::string_view text, Actions& actions) override {
    if (text == "Done") {
      actions.emplace_back(EndTrack{the_track});
    } else {
      actions.emplace_back(Ignored{{"unknown_type", "the message is not \"Done\""}});
    }
  }

  void on_binary(std::span<const std::byte> bytes, bool /*ends_message*/, Actions& actions) override {
    actions.emplace_back(TrackAudio{the_track, {bytes.begin(), bytes.end()}});
  }

  void on_event(int /*track*/, const ServerEvent& event, Actions& actions) override {
    if (const auto* partial = std::get_if<Partial>(&event)) {
      actions.emplace_back(Reply{
          write_result({.text = partial->text, .segment = partial->segment, .start = partial->start}), true});
    } else if (const auto* final = std::get_if<Final>(&event)) {
      actions.emplace_back(Reply{write_result({.text = final->text,
                                               .words = &final->words,
                                               .segment = final->segment,
                                               .start = final->start,
                                               .is_final = true,
                                               .is_eof = final->reason == "eof"})});
    } else if (std::holds_alternative<Done>(event)) {
      actions.emplace_back(Reply{"Done!"});
      actions.emplace_back(Close{});
    } else if (const auto* failure = std::get_if<ErrorEvent>(&event)) {
      actions.emplace_back(Close{close_reason(failure->error.code), failure->error.message});
    }
  }

  void on_fault(const Error& /*error*/, Actions& /*actions*/) override {}
};

}  // namespace

Acceptance accept_sherpa(const Handshake& /*handshake*/) {
  return Accepted{.dialect = std::make_unique<SherpaDialect>(), .subprotocol = {}, .headers = {}};
}

}  // namespace tutti::proto
