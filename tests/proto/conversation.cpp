#include "tests/proto/conversation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "tests/proto/script.hpp"

namespace tutti::proto {
namespace {

std::string_view encoding_of(const StreamRequest& request) {
  if (request.coding == AudioCoding::opus_packets) return "opus";
  if (request.coding == AudioCoding::container) return "container";
  return to_string(request.format.encoding);
}

std::string channels_of(const PcmFormat& format) {
  if (format.channels == 1) return "mono";
  if (format.mix == ChannelMix::pick) {
    return fmt::format("channel {} of {}", format.picked_channel, format.channels);
  }
  return fmt::format("{} channels", format.channels);
}

std::string milliseconds(std::string_view name, const std::optional<int>& value) {
  return value ? fmt::format(" {}={}", name, *value) : "";
}

std::string bytes_of(const std::vector<std::byte>& bytes) {
  if (bytes.size() > 16) return fmt::format("{} bytes", bytes.size());
  std::string hex = "hex ";
  for (const std::byte byte : bytes) hex += fmt::format("{:02x}", std::to_integer<int>(byte));
  return hex;
}

/// An action as a line of a script.
struct Line {
  std::string operator()(const OpenTrack& open) const {
    const StreamRequest& request = open.request;
    return fmt::format("= open {} {} {} Hz {}{}{}{}{}{}{}{}", open.track, encoding_of(request),
                       request.sample_rate, channels_of(request.format), request.interim ? " interim" : "",
                       request.words ? " words" : "", request.vad_events ? " vad" : "",
                       milliseconds("endpoint", request.endpoint_silence_ms),
                       milliseconds("long_silence", request.long_silence_ms),
                       milliseconds("max_segment", request.max_segment_ms),
                       open.label.empty() ? "" : fmt::format(" called {}", open.label));
  }
  std::string operator()(const TrackAudio& audio) const {
    return fmt::format("= audio {} {}", audio.track, bytes_of(audio.bytes));
  }
  std::string operator()(const FinalizeTrack& finalize) const {
    return fmt::format("= finalize {}", finalize.track);
  }
  std::string operator()(const ResetTrack& reset) const { return fmt::format("= reset {}", reset.track); }
  std::string operator()(const EndTrack& end) const { return fmt::format("= end {}", end.track); }
  std::string operator()(const Reply& reply) const {
    const bool is_text = std::ranges::none_of(reply.text, [](unsigned char c) { return c < ' '; });
    const auto bytes = std::as_bytes(std::span(reply.text));
    return fmt::format("{} {}", reply.is_partial ? "<~" : "<",
                       is_text ? reply.text : fmt::format("[{}]", bytes_of({bytes.begin(), bytes.end()})));
  }
  std::string operator()(const Ignored& ignored) const {
    return fmt::format("= ignored {}: {}", ignored.reason.code, ignored.reason.message);
  }
  std::string operator()(const Announce& announce) const {
    return fmt::format("= announce {}", announce.name);
  }
  std::string operator()(const Close& close) const {
    return fmt::format("= close {} {}", static_cast<int>(close.code), close.message);
  }
};

class Replay {
 public:
  explicit Replay(AcceptFunction accept) : accept_(accept) {}

  std::string run(const std::string& script) {
    std::istringstream lines(script);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("<") || line.starts_with("=")) continue;
      out_ += line + "\n";
      if (line.starts_with("GET ")) {
        begin(line.substr(4), lines);
      } else if (line.starts_with("> ") || line.starts_with("* ")) {
        const auto happening = parse_happening(line);
        if (!happening) throw std::runtime_error("what is this in a script: " + line);
        happen(*happening);
      }
    }
    return out_;
  }

 private:
  void begin(const std::string& target, std::istringstream& lines) {
    Headers headers;
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line.starts_with("=")) break;
      out_ += line + "\n";
      if (auto header = parse_header(line)) headers.push_back(std::move(*header));
    }
    Acceptance acceptance = accept_(test_handshake(target, std::move(headers)));
    if (const auto* refused = std::get_if<Refused>(&acceptance)) {
      out_ += fmt::format("= refused {} {}\n", refused->status, refused->body);
      return;
    }
    auto& accepted = std::get<Accepted>(acceptance);
    dialect_ = std::move(accepted.dialect);
    out_ += "= accepted";
    if (!accepted.subprotocol.empty()) out_ += " " + accepted.subprotocol;
    out_ += "\n";
    Actions actions;
    dialect_->on_open(actions);
    write(actions);
  }

  void happen(const Happening& happening) {
    Actions actions;
    std::visit([&](const auto& what) { tell(what, actions); }, happening);
    write(actions);
  }

  void tell(const ClientText& said, Actions& actions) { dialect_->on_text(said.text, actions); }
  void tell(const ClientBinary& said, Actions& actions) {
    dialect_->on_binary(said.bytes, said.ends_message, actions);
  }
  void tell(const TrackSays& said, Actions& actions) { dialect_->on_event(said.track, said.event, actions); }
  void tell(const TrackHeard& heard, Actions& actions) {
    dialect_->on_heard(heard.track, heard.bytes, actions);
  }
  void tell(const Idle& /*idle*/, Actions& actions) { dialect_->on_idle(actions); }
  void tell(const Fault& fault, Actions& actions) { dialect_->on_fault(fault.error, actions); }

  void write(const Actions& actions) {
    for (const Action& action : actions) {
      std::string line = std::visit(Line{}, action);
      while (line.ends_with(' ')) line.pop_back();
      out_ += line + "\n";
    }
  }

  AcceptFunction accept_;
  std::unique_ptr<Dialect> dialect_;
  std::string out_;
};

}  // namespace

Handshake test_handshake(std::string_view target, Headers headers) {
  const size_t question = target.find('?');
  Handshake handshake;
  handshake.session = test_session;
  handshake.path = target.substr(0, question);
  handshake.query = question == std::string_view::npos ? "" : target.substr(question + 1);
  handshake.headers = std::move(headers);
  handshake.time = std::chrono::system_clock::time_point(std::chrono::seconds(1'767'323'045));
  return handshake;
}

std::string read_conversation(const std::string& name) {
  std::ifstream file(std::string(TUTTI_CONVERSATIONS) + "/" + name + ".txt");
  if (!file) throw std::runtime_error("no conversation " + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string replay(const std::string& script, AcceptFunction accept) { return Replay(accept).run(script); }

}  // namespace tutti::proto
