#include <caf/send.hpp>
#include <utility>

#include "actors/event_hub_actor.hpp"
#include "actors/gateway.hpp"
#include "actors/stream_actor.hpp"

namespace tutti {
namespace {

/// A stream actor as its session sees it: counts what the session sends against its credit. The session's
/// calls never overlap; only the Inbox is shared with the actor.
class StreamBridge final : public StreamPort {
 public:
  StreamBridge(StreamActor stream, std::shared_ptr<Inbox> inbox, const proto::Dialect& dialect)
      : stream_(std::move(stream)),
        inbox_(std::move(inbox)),
        has_audio_in_text_(dialect.has_audio_in_text()),
        is_heard_elsewhere_(dialect.is_heard_elsewhere()) {}
  StreamBridge(const StreamBridge&) = delete;
  StreamBridge& operator=(const StreamBridge&) = delete;
  ~StreamBridge() override { StreamBridge::on_closed(); }

  using StreamPort::on_audio;
  void on_audio(std::vector<std::byte> bytes, bool ends_message) override {
    if (!stream_ || (bytes.empty() && !ends_message)) return;
    if (!charge(bytes.size())) return overrun();
    caf::anon_send(stream_, audio_atom_v,
                   AudioBytes{make_buffer(std::move(bytes)), Clock::now(), ends_message});
  }

  void on_text(std::string message) override {
    if (!stream_) return;
    const bool allowed = has_audio_in_text_ ? charge(message.size())
                                            : inbox_->control_messages.fetch_add(1) < max_control_messages;
    if (!allowed) return overrun();
    caf::anon_send(stream_, text_atom_v, TextMessage{std::move(message), Clock::now()});
  }

  void on_fault(Error error) override { end(fault_atom_v, std::move(error)); }

  void on_closed() override { end(closed_atom_v); }

 private:
  /// Ahead of queued audio, unless there is somebody to hear its transcript.
  template <class... Message>
  void end(Message&&... message) {
    if (!stream_) return;
    if (is_heard_elsewhere_) {
      caf::anon_send(stream_, std::forward<Message>(message)...);
    } else {
      caf::anon_send<caf::message_priority::high>(stream_, std::forward<Message>(message)...);
    }
    stream_ = nullptr;
  }

  [[nodiscard]] bool charge(size_t bytes) {
    const bool has_credit = inbox_->credit_bytes.fetch_sub(static_cast<int64_t>(bytes)) > 0;
    const bool has_room = inbox_->audio_messages.fetch_add(1) < max_audio_messages;
    return has_credit && has_room;
  }

  void overrun() { on_fault({"overrun", "more was sent than this session may have unprocessed"}); }

  StreamActor stream_;  // null when nothing more is to be sent
  std::shared_ptr<Inbox> inbox_;
  bool has_audio_in_text_;
  bool is_heard_elsewhere_;
};

}  // namespace

GatewayBridge::GatewayBridge(caf::actor_system& system, GatewayActor gateway, EventHubBridge& hub,
                             std::shared_ptr<Metrics> metrics, int credit_ms, const EndpointRules& endpoint,
                             std::shared_ptr<TraceWriter> traces)
    : system_(system),
      gateway_(std::move(gateway)),
      hub_(hub),
      metrics_(std::move(metrics)),
      terms_({credit_ms, endpoint}),
      traces_(std::move(traces)) {}

std::unique_ptr<StreamPort> GatewayBridge::open_stream(SessionRequest request,
                                                       std::shared_ptr<SessionSink> sink) {
  auto inbox = std::make_shared<Inbox>();
  const Terms& terms = terms_.get();
  const std::shared_ptr<proto::Dialect> dialect = std::move(request.dialect);
  std::shared_ptr<SessionFeed> feed = hub_.open_feed({.number = 0,
                                                      .session = request.session,
                                                      .client = std::string(sink->client()),
                                                      .dialect = std::string(request.dialect_name),
                                                      .is_heard_elsewhere = dialect->is_heard_elsewhere()});
  StreamSetup setup{.session = std::move(request.session),
                    .dialect_name = request.dialect_name,
                    .dialect = dialect,
                    .sink = std::move(sink),
                    .inbox = inbox,
                    .feed = std::move(feed),
                    .metrics = metrics_,
                    .traces = traces_,
                    .credit_ms = terms.credit_ms,
                    .endpoint = terms.endpoint};
  StreamActor stream = system_.spawn(stream_actor, std::move(setup), gateway_);
  return std::make_unique<StreamBridge>(std::move(stream), std::move(inbox), *dialect);
}

}  // namespace tutti
