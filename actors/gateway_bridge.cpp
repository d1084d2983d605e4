#include <fmt/format.h>

#include <caf/send.hpp>
#include <random>
#include <utility>

#include "actors/gateway.hpp"
#include "actors/stream_actor.hpp"

namespace tutti {
namespace {

/// A stream actor as its session sees it: counts what the session sends against its credit. The session's
/// calls never overlap; only the Inbox is shared with the actor.
class StreamBridge final : public StreamPort {
 public:
  StreamBridge(StreamActor stream, std::shared_ptr<Inbox> inbox)
      : stream_(std::move(stream)), inbox_(std::move(inbox)) {}
  StreamBridge(const StreamBridge&) = delete;
  StreamBridge& operator=(const StreamBridge&) = delete;
  ~StreamBridge() override { StreamBridge::on_closed(); }

  void on_audio(std::vector<std::byte> bytes) override {
    if (!stream_ || bytes.empty()) return;
    const auto size = static_cast<int64_t>(bytes.size());
    const bool has_credit = inbox_->credit_bytes.fetch_sub(size) > 0;
    const bool has_room = inbox_->audio_messages.fetch_add(1) < max_audio_messages;
    if (!has_credit || !has_room) return overrun();
    caf::anon_send(stream_, audio_atom_v, AudioBytes{make_buffer(std::move(bytes)), Clock::now()});
  }

  void on_text(std::string message) override {
    if (!stream_) return;
    if (inbox_->control_messages.fetch_add(1) >= max_control_messages) return overrun();
    caf::anon_send(stream_, text_atom_v, std::move(message));
  }

  void on_closed() override {
    // Ahead of queued audio: nobody is there to hear its transcript.
    caf::anon_send<caf::message_priority::high>(stream_, closed_atom_v);
    stream_ = nullptr;
  }

 private:
  void overrun() {
    caf::anon_send<caf::message_priority::high>(stream_, overrun_atom_v);
    stream_ = nullptr;
  }

  StreamActor stream_;  // null when nothing more is to be sent
  std::shared_ptr<Inbox> inbox_;
};

uint64_t random_id() {
  std::random_device device;
  return (uint64_t{device()} << 32U) | device();
}

}  // namespace

GatewayBridge::GatewayBridge(caf::actor_system& system, GatewayActor gateway,
                             std::shared_ptr<Metrics> metrics, int credit_ms, const EndpointRules& endpoint)
    : system_(system),
      gateway_(std::move(gateway)),
      metrics_(std::move(metrics)),
      credit_ms_(credit_ms),
      endpoint_(endpoint),
      run_id_(random_id()) {}

std::unique_ptr<StreamPort> GatewayBridge::open_stream(std::string query, std::shared_ptr<SessionSink> sink) {
  auto inbox = std::make_shared<Inbox>();
  StreamSetup setup{.session = fmt::format("{:016x}-{}", run_id_, ++sessions_),
                    .query = std::move(query),
                    .sink = std::move(sink),
                    .inbox = inbox,
                    .metrics = metrics_,
                    .credit_ms = credit_ms_,
                    .endpoint = endpoint_};
  StreamActor stream = system_.spawn(stream_actor, std::move(setup), gateway_);
  return std::make_unique<StreamBridge>(std::move(stream), std::move(inbox));
}

}  // namespace tutti
