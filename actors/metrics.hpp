#pragma once

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/ports.hpp"
#include "engine/engine.hpp"

namespace tutti {

/// What the server counts, by the names of docs/metrics.md. Unless it says otherwise, a member may be called
/// from any thread.
class Metrics {
 public:
  Metrics();

  /// A session of the dialect of that name.
  void session_opened(std::string_view dialect);
  void session_closed(std::string_view dialect, bool failed);
  /// Of all owners together.
  void stream_places(int places) { stream_places_.Set(places); }
  void stream_opened() { open_streams_.Increment(); }
  void stream_closed() { open_streams_.Decrement(); }
  void audio_fed(double seconds) { audio_seconds_.Increment(seconds); }
  /// From the arrival of an update's last sample to its message being sent.
  void result_sent(double seconds) { result_latency_.Observe(seconds); }
  void refused(const std::string& reason);
  /// An error event; `code` is one of ours, never a client's text.
  void error(const std::string& code);
  void audio_ignored() { ignored_audio_.Increment(); }
  void message_ignored() { ignored_messages_.Increment(); }
  void upload_opened() { open_uploads_.Increment(); }
  void upload_closed() { open_uploads_.Decrement(); }
  /// `outcome` is "done", "cancelled" or the code of an error.
  void upload_ended(const std::string& outcome);
  void subscriber_opened() { open_subscribers_.Increment(); }
  void subscriber_closed() { open_subscribers_.Decrement(); }
  void subscriber_refused(const std::string& reason);
  /// A partial or voice event that nobody was told of: the hub had too much to do.
  void event_unpublished() { unpublished_events_.Increment(); }
  void stream_mailbox(int64_t messages) { raise(stream_mailbox_, messages); }
  void owner_mailbox(int64_t messages) { raise(owner_mailbox_, messages); }
  [[nodiscard]] int64_t stream_mailbox_high_water() const { return stream_mailbox_; }
  /// One tick of an owner: its wall time and its engine's counters before and after.
  void tick(double seconds, const EngineStats& before, const EngineStats& after);

  /// Also shows what `source` collects. Before the first text().
  void add_source(std::shared_ptr<prometheus::Collectable> source) { sources_.push_back(std::move(source)); }
  /// Prometheus text exposition format.
  [[nodiscard]] std::string text() const;

 private:
  static void raise(std::atomic<int64_t>& high_water, int64_t value);

  std::vector<std::shared_ptr<prometheus::Collectable>> sources_;
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Gauge>& open_sessions_;
  prometheus::Family<prometheus::Counter>& sessions_;
  prometheus::Family<prometheus::Counter>& failed_sessions_;
  prometheus::Gauge& stream_places_;
  prometheus::Gauge& open_streams_;
  prometheus::Counter& audio_seconds_;
  prometheus::Counter& ticks_;
  prometheus::Counter& stale_calls_;
  prometheus::Counter& failed_streams_;
  prometheus::Counter& forward_seconds_;
  prometheus::Counter& feature_seconds_;
  prometheus::Counter& decode_seconds_;
  prometheus::Counter& rescore_seconds_;
  prometheus::Histogram& batch_size_;
  prometheus::Histogram& tick_seconds_;
  prometheus::Histogram& result_latency_;
  prometheus::Family<prometheus::Counter>& refusals_;
  prometheus::Family<prometheus::Counter>& errors_;
  prometheus::Counter& ignored_audio_;
  prometheus::Counter& ignored_messages_;
  prometheus::Gauge& open_uploads_;
  prometheus::Family<prometheus::Counter>& uploads_;
  prometheus::Gauge& open_subscribers_;
  prometheus::Family<prometheus::Counter>& refused_subscribers_;
  prometheus::Counter& unpublished_events_;
  prometheus::Gauge& stream_mailbox_gauge_;
  prometheus::Gauge& owner_mailbox_gauge_;
  std::atomic<int64_t> stream_mailbox_{0};
  std::atomic<int64_t> owner_mailbox_{0};
};

/// Readiness and metrics for the HTTP side.
class ServerStatus final : public StatusPort {
 public:
  explicit ServerStatus(const Metrics& metrics) : metrics_(metrics) {}
  void set_ready(bool ready) { ready_ = ready; }
  /// Before anyone asks for it.
  void set_model(ModelInfo model) { model_ = std::move(model); }
  [[nodiscard]] bool ready() const override { return ready_; }
  [[nodiscard]] std::string metrics() const override { return metrics_.text(); }
  [[nodiscard]] ModelInfo model() const override { return model_; }

 private:
  const Metrics& metrics_;
  std::atomic<bool> ready_{false};
  ModelInfo model_;
};

}  // namespace tutti
