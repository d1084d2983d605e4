#include <utility>
#include <vector>

#include "audio/opus_framing.hpp"
#include "proto/native.hpp"

namespace tutti::proto {
namespace {

constexpr int the_track = 0;

class NativeDialect final : public Dialect {
 public:
  explicit NativeDialect(Result<NativeRequest> request) : request_(std::move(request)) {}

  void on_open(Actions& actions) override {
    if (request_) {
      actions.emplace_back(OpenTrack{the_track, *request_});
      return;
    }
    const Error& error = request_.error();
    reply({.error = error, .fatal = true}, actions);
    actions.emplace_back(Close{close_reason(error.code), error.message, error.code});
  }

  void on_text(std::string_view message, Actions& actions) override {
    const auto event = parse_client_message(message);
    if (!event) {
      actions.emplace_back(Ignored{event.error()});
      return reply({.error = event.error(), .fatal = false}, actions);
    }
    if (std::holds_alternative<Finalize>(*event)) actions.emplace_back(FinalizeTrack{the_track});
    if (std::holds_alternative<Eof>(*event)) actions.emplace_back(EndTrack{the_track});
  }

  void on_binary(std::span<const std::byte> bytes, bool ends_message, Actions& actions) override {
    auto audio = request_ && request_->coding == AudioCoding::opus_packets
                     ? framer_.add(bytes, ends_message)
                     : std::vector<std::byte>(bytes.begin(), bytes.end());
    if (!audio.empty()) actions.emplace_back(TrackAudio{the_track, std::move(audio)});
  }

  void on_event(int /*track*/, const ServerEvent& event, Actions& actions) override {
    std::string text = write_event(event, format());
    if (!text.empty()) actions.emplace_back(Reply{std::move(text), std::holds_alternative<Partial>(event)});
    if (std::holds_alternative<Done>(event)) actions.emplace_back(Close{});
    if (const auto* failure = std::get_if<ErrorEvent>(&event)) {
      actions.emplace_back(Close{close_reason(failure->error.code), failure->error.message});
    }
  }

  void on_fault(const Error& error, Actions& actions) override {
    reply({.error = error, .fatal = true}, actions);
  }

 private:
  // A request that cannot be read is answered in JSON: the format it asked for is not known.
  [[nodiscard]] OutputFormat format() const { return request_ ? request_->output : OutputFormat::json; }

  void reply(const ErrorEvent& event, Actions& actions) const {
    actions.emplace_back(Reply{write_event(event, format())});
  }

  Result<NativeRequest> request_;
  OpusFramer framer_;
};

}  // namespace

Acceptance accept_native(const Handshake& handshake) {
  return Accepted{.dialect = std::make_unique<NativeDialect>(parse_stream_request(handshake.query)),
                  .subprotocol = {},
                  .headers = {}};
}

}  // namespace tutti::proto
