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
#include <vector>

#include "actors/device_metrics.hpp"
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
  /// Why a session ended: "finished", "client_left", "lost", or the code of an error, never a client's text.
  void session_ended(std::string_view dialect, const std::string& reason);
  void stream_opened() { open_streams_.Increment(); }
  void stream_closed() { open_streams_.Decrement(); }
  void audio_fed(double seconds) { audio_seconds_.Increment(seconds); }
  /// From the arrival of an update's last sample to its message being sent.
  void result_sent(double seconds) { result_latency_.Observe(seconds); }
  /// From the arrival of a final's last sample, or of what asked for it.
  void final_sent(double seconds) { final_latency_.Observe(seconds); }
  /// From the arrival of a stream's first audio.
  void first_text(double seconds) { first_text_.Observe(seconds); }
  /// A session or track of the dialect, or an "upload", got no stream. Reasons are ours, never a client's
  /// text.
  void refused(std::string_view dialect, const std::string& reason);
  /// An error event; `code` is one of ours, too.
  void error(std::string_view dialect, const std::string& code);
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
  struct TickTimes {
    Clock::duration whole;
    Clock::duration emit;  ///< the end of it, when updates are sent
  };
  /// One tick of an owner, with its engine's counters before and after.
  void tick(const TickTimes& times, const EngineStats& before, const EngineStats& after);
  /// One chunk of it: how long it waited for the tick, and until its results were sent.
  void chunk(StreamClass stream_class, Clock::duration waited, Clock::duration latency);
  /// What has changed of the blocks that owners have, and of those that streams hold.
  void kv_blocks(int blocks, int used);
  void snapshot_taken() { snapshots_.Increment(); }
  /// What its owners ask of a device: "cuda:0".
  [[nodiscard]] DeviceMetrics of_device(const std::string& device) { return {registry_, device}; }

  /// The name of the model that new streams are recognized with. From one thread at a time.
  void model(const std::string& name);
  /// `outcome` is "applied" or "refused".
  void reloaded(const std::string& outcome) { reloads_.Add({{"outcome", outcome}}).Increment(); }

  struct OwnerCounts {
    int alive = 0;
    int overloaded = 0;  ///< of those alive
    int retiring = 0;    ///< of those alive
    int lost = 0;
  };
  void owners(const OwnerCounts& counts);
  /// `how` is "died" or "hung".
  void owner_lost(const std::string& how);
  void stream_moved() { moved_streams_.Increment(); }
  /// On the owners that are alive.
  void stream_places(int places) { stream_places_.Set(places); }
  void waiting_streams(size_t streams) { waiting_streams_.Set(static_cast<double>(streams)); }
  void place_given(Clock::duration waited);

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
  prometheus::Family<prometheus::Counter>& session_ends_;
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
  prometheus::Histogram& final_latency_;
  prometheus::Histogram& first_text_;
  prometheus::Histogram& live_chunk_latency_;
  prometheus::Histogram& upload_chunk_latency_;
  prometheus::Histogram& queue_stage_;
  prometheus::Histogram& features_stage_;
  prometheus::Histogram& forward_stage_;
  prometheus::Histogram& decode_stage_;
  prometheus::Histogram& rescore_stage_;
  prometheus::Histogram& emit_stage_;
  prometheus::Gauge& kv_blocks_;
  prometheus::Gauge& used_kv_blocks_;
  prometheus::Counter& snapshots_;
  prometheus::Family<prometheus::Gauge>& model_info_;
  prometheus::Gauge* model_ = nullptr;  // of model_info_
  prometheus::Family<prometheus::Counter>& reloads_;
  prometheus::Gauge& owners_alive_;
  prometheus::Gauge& owners_overloaded_;
  prometheus::Gauge& owners_retiring_;
  prometheus::Gauge& owners_lost_;
  prometheus::Family<prometheus::Counter>& owner_losses_;
  prometheus::Counter& moved_streams_;
  prometheus::Gauge& stream_places_;
  prometheus::Gauge& waiting_streams_;
  prometheus::Histogram& place_wait_;
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

}  // namespace tutti
