#include "tests/proto/conversation.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "proto/server_event.hpp"

namespace tutti::proto {
namespace {

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
    return fmt::format("= open {} {} {} Hz {}{}{}{}{}{}{}", open.track, to_string(request.format.encoding),
                       request.sample_rate, channels_of(request.format), request.interim ? " interim" : "",
                       request.words ? " words" : "", request.vad_events ? " vad" : "",
                       milliseconds("endpoint", request.endpoint_silence_ms),
                       milliseconds("long_silence", request.long_silence_ms),
                       milliseconds("max_segment", request.max_segment_ms));
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

int number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw std::runtime_error(fmt::format("not a number in a script: {}", text));
  }
  return value;
}

std::vector<std::byte> binary_of(std::string_view text) {
  if (text.starts_with("hex ")) {
    std::vector<std::byte> bytes;
    for (size_t i = 4; i + 1 < text.size(); i += 2) {
      bytes.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
    }
    return bytes;
  }
  return std::vector<std::byte>(static_cast<size_t>(number(text.substr(0, text.find(' ')))));
}

std::vector<WordTime> words_of(const std::string& json) {
  simdjson::dom::parser parser;
  std::vector<WordTime> words;
  simdjson::dom::array array;
  if (parser.parse(json)["words"].get_array().get(array) != simdjson::SUCCESS) return words;
  for (const auto element : array) {
    words.push_back({.word = std::string(element["word"].get_string().value()),
                     .start = element["start"].get_double().value(),
                     .end = element["end"].get_double().value(),
                     .confidence = static_cast<float>(element["confidence"].get_double().value())});
  }
  return words;
}

ServerEvent event_of(const std::string& json) {
  auto event = parse_server_event(json);
  if (!event) throw std::runtime_error(event.error().message + ": " + json);
  if (auto* final = std::get_if<Final>(&*event)) {
    final->words = words_of(json);
    final->has_words = !final->words.empty();
  }
  if (auto* error = std::get_if<ErrorEvent>(&*event)) error->fatal = true;
  return std::move(*event);
}

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
      } else if (line.starts_with("> ")) {
        say(line.substr(2));
      } else if (line.starts_with("* ")) {
        happen(line.substr(2));
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
      const size_t colon = line.find(": ");
      headers.emplace_back(line.substr(0, colon), line.substr(colon + 2));
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

  void say(const std::string& what) {
    Actions actions;
    if (what.starts_with("[") && what.ends_with("]") &&
        (what.find(" bytes]") != std::string::npos || what.starts_with("[hex "))) {
      dialect_->on_binary(binary_of(std::string_view(what).substr(1, what.size() - 2)), true, actions);
    } else {
      dialect_->on_text(what, actions);
    }
    write(actions);
  }

  void happen(const std::string& what) {
    Actions actions;
    if (what == "idle") {
      dialect_->on_idle(actions);
    } else if (what.starts_with("fault ")) {
      const size_t space = what.find(' ', 6);
      dialect_->on_fault({what.substr(6, space - 6), what.substr(space + 1)}, actions);
    } else {
      const size_t space = what.find(' ');
      const int track = number(std::string_view(what).substr(0, space));
      const std::string rest = what.substr(space + 1);
      if (rest.starts_with("heard ")) {
        dialect_->on_heard(track, number(std::string_view(rest).substr(6)), actions);
      } else {
        dialect_->on_event(track, event_of(rest), actions);
      }
    }
    write(actions);
  }

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
