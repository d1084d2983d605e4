#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "proto/audiosocket.hpp"
#include "proto/dialects.hpp"
#include "tests/config/broken_rule.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/fuzz/live_bytes.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/proto/checked_session.hpp"
#include "tests/proto/conversation.hpp"
#include "tests/proto/script.hpp"

namespace tutti::fuzz {
namespace {

using namespace proto;

constexpr int settling_rounds = 8;
constexpr int more_rounds = 24;
// What a session may have grown by then: less than a small object a round.
constexpr size_t most_growth = 512;
// Longer scripts are not held again: what they could show, a short one does.
constexpr size_t max_repeated_happenings = 16;

/// AudioSocket is no WebSocket, and has no handshake.
AcceptFunction accept_function(const std::string& name) {
  if (name == "audiosocket") {
    return [](const Handshake& /*handshake*/) -> Acceptance {
      return Accepted{.dialect = make_audiosocket(), .subprotocol = {}, .headers = {}};
    };
  }
  const DialectEntry* const dialect = find_dialect(name);
  require(dialect != nullptr, "there is such a dialect");
  return dialect->accept;
}

/// A value of an HTTP header stays on its line.
void check_headers(const Headers& headers) {
  for (const auto& [name, value] : headers) {
    require(std::ranges::none_of(name + value, [](unsigned char c) { return c < 0x20 || c == 0x7F; }),
            fmt::format("the header {} is one line", name));
  }
}

class Conversation {
 public:
  Conversation(AcceptFunction accept, SessionRules rules) : accept_(accept), rules_(rules) {}

  void hold(std::string_view script) {
    while (!script.empty()) {
      const std::string_view line = take_line(script);
      if (line.starts_with("GET ")) {
        begin(line.substr(4), script);
      } else if (line == "* again") {
        hold_again();
      } else if (auto happening = parse_happening(line)) {
        happen(*happening);
        happened_.push_back(std::move(*happening));
      }
    }
    if (session_) session_->catch_up();
  }

 private:
  void begin(std::string_view target, std::string_view& script) {
    session_.reset();
    happened_.clear();
    Headers headers;
    while (auto header = parse_header(script.substr(0, script.find('\n')))) {
      static_cast<void>(take_line(script));
      headers.push_back(std::move(*header));
    }
    Acceptance acceptance = accept_(test_handshake(target, std::move(headers)));
    if (const auto* refused = std::get_if<Refused>(&acceptance)) {
      check_headers(refused->headers);
      simdjson::dom::parser parser;
      require(parser.parse(refused->body).error() == simdjson::SUCCESS, "a refusal's body is JSON");
      return;
    }
    auto& accepted = std::get<Accepted>(acceptance);
    check_headers(accepted.headers);
    session_.emplace(std::move(accepted.dialect), rules_);
    session_->open();
  }

  void happen(const Happening& happening) {
    if (session_) std::visit([this](const auto& what) { tell(what); }, happening);
  }
  void tell(const ClientText& said) { session_->text(said.text); }
  void tell(const ClientBinary& said) { session_->binary(said.bytes, said.ends_message); }
  void tell(const TrackSays& said) { session_->say(said.track, said.event); }
  void tell(const TrackHeard& heard) { session_->hear(heard.track, heard.bytes); }
  void tell(const Idle& /*idle*/) { session_->idle(); }
  void tell(const proto::Fault& fault) { session_->fault(fault.error); }

  /// With a recognizer that keeps up.
  void hold_again() {
    if (!session_ || happened_.size() > max_repeated_happenings) return;
    const auto rounds = [this](int count) {
      for (int i = 0; i < count && !session_->closed(); ++i) {
        for (const Happening& happening : happened_) happen(happening);
        session_->catch_up();
      }
      return live_bytes();
    };
    const size_t before = rounds(settling_rounds);
    const size_t after = rounds(more_rounds);
    require(after <= before + most_growth + live_bytes_error,
            fmt::format("a session does not grow: {} bytes more", after - std::min(before, after)));
  }

  AcceptFunction accept_;
  SessionRules rules_;
  std::optional<CheckedSession> session_;
  std::vector<Happening> happened_;
};

}  // namespace

void run_dialect(const std::string& name, std::span<const std::byte> input) {
  Conversation(accept_function(name), rules_of(name)).hold(text_of(input));
}

}  // namespace tutti::fuzz
