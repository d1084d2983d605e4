#include "actors/metrics.hpp"

#include <prometheus/text_serializer.h>

#include <sstream>

namespace tutti {
namespace {

const prometheus::Histogram::BucketBoundaries batch_buckets{1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128};
const prometheus::Histogram::BucketBoundaries tick_buckets{0.001, 0.002, 0.005, 0.01, 0.02, 0.03,
                                                           0.04,  0.06,  0.1,   0.2,  0.5,  1.0};
const prometheus::Histogram::BucketBoundaries latency_buckets{0.005, 0.01, 0.02, 0.04, 0.06, 0.1,
                                                              0.2,   0.4,  0.8,  1.6,  3.2,  6.4};
const prometheus::Histogram::BucketBoundaries stage_buckets{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01,
                                                            0.02,   0.05,   0.1,    0.2,   0.5,   1.0,   2.0};
const prometheus::Histogram::BucketBoundaries wait_buckets{0.01, 0.1, 0.5, 1, 2, 5, 10, 20, 60};
const prometheus::Histogram::BucketBoundaries first_text_buckets{0.1, 0.2, 0.4, 0.7, 1, 1.5, 2, 3, 5, 10, 30};

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

prometheus::Counter& counter(prometheus::Registry& registry, const char* name, const char* help,
                             const prometheus::Labels& labels = {}) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
}

prometheus::Gauge& gauge(prometheus::Registry& registry, const char* name, const char* help,
                         const prometheus::Labels& labels = {}) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
}

prometheus::Histogram& histogram(prometheus::Registry& registry, const char* name, const char* help,
                                 const prometheus::Histogram::BucketBoundaries& buckets,
                                 const prometheus::Labels& labels = {}) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, buckets);
}

prometheus::Family<prometheus::Counter>& counters(prometheus::Registry& registry, const char* name,
                                                  const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

constexpr const char* phase_name = "tutti_phase_seconds_total";
constexpr const char* phase_help = "Time owners spent, by phase of the tick";
constexpr const char* stage_name = "tutti_stage_seconds";
constexpr const char* stage_help =
    "Time of a chunk in the queue, and of the tick that it is part of, by stage";
constexpr const char* chunk_name = "tutti_chunk_latency_seconds";
constexpr const char* chunk_help =
    "From when a chunk could be forwarded to when its results were sent, by class of stream";
constexpr const char* owners_name = "tutti_owners";
constexpr const char* owners_help =
    "Owners that recognize, those of them that are late or get no new streams, and those that are lost";
constexpr const char* ignored_name = "tutti_ignored_messages_total";
constexpr const char* ignored_help = "Client messages without effect, by kind";
constexpr const char* mailbox_name = "tutti_mailbox_high_water_messages";
constexpr const char* mailbox_help = "Most messages seen waiting in one mailbox since the start, by actor";

}  // namespace

Metrics::Metrics()
    : open_sessions_(prometheus::BuildGauge()
                         .Name("tutti_open_sessions")
                         .Help("Open sessions, by dialect")
                         .Register(registry_)),
      sessions_(counters(registry_, "tutti_sessions_total", "Sessions, by dialect")),
      failed_sessions_(
          counters(registry_, "tutti_failed_sessions_total", "Sessions that an error ended, by dialect")),
      session_ends_(
          counters(registry_, "tutti_session_ends_total", "Sessions that ended, by dialect and reason")),
      open_streams_(gauge(registry_, "tutti_open_streams", "Streams that hold a place on an owner")),
      audio_seconds_(counter(registry_, "tutti_audio_seconds_total", "Audio given to the engines")),
      ticks_(counter(registry_, "tutti_ticks_total", "Batched forwards")),
      stale_calls_(counter(registry_, "tutti_stale_calls_total", "Messages for a stream that was gone")),
      failed_streams_(
          counter(registry_, "tutti_failed_streams_total", "Streams ended by a failure of their own")),
      forward_seconds_(counter(registry_, phase_name, phase_help, {{"phase", "forward"}})),
      feature_seconds_(counter(registry_, phase_name, phase_help, {{"phase", "features"}})),
      decode_seconds_(counter(registry_, phase_name, phase_help, {{"phase", "decode"}})),
      rescore_seconds_(counter(registry_, phase_name, phase_help, {{"phase", "rescore"}})),
      batch_size_(histogram(registry_, "tutti_batch_size", "Lanes of a batched forward", batch_buckets)),
      tick_seconds_(
          histogram(registry_, "tutti_tick_seconds", "Wall time of a batched forward", tick_buckets)),
      result_latency_(histogram(registry_, "tutti_result_latency_seconds",
                                "From the arrival of a result's last sample to its sending",
                                latency_buckets)),
      final_latency_(
          histogram(registry_, "tutti_final_latency_seconds",
                    "From the arrival of a final's last sample, or of what asked for it, to its sending",
                    latency_buckets)),
      first_text_(histogram(registry_, "tutti_first_text_seconds",
                            "From the arrival of a stream's first audio to its first words",
                            first_text_buckets)),
      live_chunk_latency_(histogram(registry_, chunk_name, chunk_help, latency_buckets, {{"class", "live"}})),
      upload_chunk_latency_(
          histogram(registry_, chunk_name, chunk_help, latency_buckets, {{"class", "upload"}})),
      queue_stage_(histogram(registry_, stage_name, stage_help, stage_buckets, {{"stage", "queue"}})),
      features_stage_(histogram(registry_, stage_name, stage_help, stage_buckets, {{"stage", "features"}})),
      forward_stage_(histogram(registry_, stage_name, stage_help, stage_buckets, {{"stage", "forward"}})),
      decode_stage_(histogram(registry_, stage_name, stage_help, stage_buckets, {{"stage", "decode"}})),
      rescore_stage_(histogram(registry_, stage_name, stage_help, stage_buckets, {{"stage", "rescore"}})),
      emit_stage_(histogram(registry_, stage_name, stage_help, stage_buckets, {{"stage", "emit"}})),
      kv_blocks_(gauge(registry_, "tutti_kv_blocks", "Cache blocks of all owners")),
      used_kv_blocks_(gauge(registry_, "tutti_used_kv_blocks", "Cache blocks that streams hold")),
      snapshots_(
          counter(registry_, "tutti_snapshots_total", "Snapshots of streams, from which they can move")),
      model_info_(prometheus::BuildGauge()
                      .Name("tutti_model_info")
                      .Help("1, of the model that new streams are recognized with")
                      .Register(registry_)),
      reloads_(counters(registry_, "tutti_reloads_total", "Reloads of the configuration, by outcome")),
      owners_alive_(gauge(registry_, owners_name, owners_help, {{"state", "alive"}})),
      owners_overloaded_(gauge(registry_, owners_name, owners_help, {{"state", "overloaded"}})),
      owners_retiring_(gauge(registry_, owners_name, owners_help, {{"state", "retiring"}})),
      owners_lost_(gauge(registry_, owners_name, owners_help, {{"state", "lost"}})),
      owner_losses_(counters(registry_, "tutti_owner_losses_total", "Owners that were lost, by how")),
      moved_streams_(
          counter(registry_, "tutti_moved_streams_total", "Streams that went on with another owner")),
      stream_places_(gauge(registry_, "tutti_stream_places", "Streams that the owners alive can hold")),
      waiting_streams_(gauge(registry_, "tutti_waiting_streams", "Streams that wait for a place")),
      place_wait_(histogram(registry_, "tutti_place_wait_seconds", "How long streams waited for their places",
                            wait_buckets)),
      refusals_(counters(registry_, "tutti_refusals_total", "What got no stream, by dialect and reason")),
      errors_(counters(registry_, "tutti_errors_total", "Error events sent, by dialect and code")),
      ignored_audio_(counter(registry_, ignored_name, ignored_help, {{"kind", "audio_after_eof"}})),
      ignored_messages_(counter(registry_, ignored_name, ignored_help, {{"kind", "malformed"}})),
      open_uploads_(gauge(registry_, "tutti_open_uploads", "Files being received or transcribed")),
      uploads_(counters(registry_, "tutti_uploads_total", "Uploads that ended, by outcome")),
      open_subscribers_(
          gauge(registry_, "tutti_open_subscribers", "Readers of sessions that are not their clients")),
      refused_subscribers_(
          counters(registry_, "tutti_refused_subscribers_total", "Subscribers that got no place, by reason")),
      unpublished_events_(counter(registry_, "tutti_unpublished_events_total",
                                  "Partials and voice events that subscribers were not told of")),
      stream_mailbox_gauge_(gauge(registry_, mailbox_name, mailbox_help, {{"actor", "stream"}})),
      owner_mailbox_gauge_(gauge(registry_, mailbox_name, mailbox_help, {{"actor", "owner"}})) {}

void Metrics::session_opened(std::string_view dialect) {
  const prometheus::Labels labels{{"dialect", std::string(dialect)}};
  sessions_.Add(labels).Increment();
  failed_sessions_.Add(labels);  // so that it is shown before the first
  open_sessions_.Add(labels).Increment();
}

void Metrics::session_closed(std::string_view dialect, bool failed) {
  const prometheus::Labels labels{{"dialect", std::string(dialect)}};
  if (failed) failed_sessions_.Add(labels).Increment();
  open_sessions_.Add(labels).Decrement();
}

void Metrics::session_ended(std::string_view dialect, const std::string& reason) {
  session_ends_.Add({{"dialect", std::string(dialect)}, {"reason", reason}}).Increment();
}

void Metrics::model(const std::string& name) {
  if (model_ != nullptr) model_info_.Remove(model_);
  model_ = &model_info_.Add({{"model", name}});
  model_->Set(1);
}

void Metrics::owners(const OwnerCounts& counts) {
  owners_alive_.Set(counts.alive);
  owners_overloaded_.Set(counts.overloaded);
  owners_retiring_.Set(counts.retiring);
  owners_lost_.Set(counts.lost);
}

void Metrics::owner_lost(const std::string& how) { owner_losses_.Add({{"how", how}}).Increment(); }

void Metrics::place_given(Clock::duration waited) { place_wait_.Observe(seconds(waited)); }

void Metrics::kv_blocks(int blocks, int used) {
  kv_blocks_.Increment(blocks);
  used_kv_blocks_.Increment(used);
}

void Metrics::refused(std::string_view dialect, const std::string& reason) {
  refusals_.Add({{"dialect", std::string(dialect)}, {"reason", reason}}).Increment();
}

void Metrics::error(std::string_view dialect, const std::string& code) {
  errors_.Add({{"dialect", std::string(dialect)}, {"code", code}}).Increment();
}

void Metrics::upload_ended(const std::string& outcome) { uploads_.Add({{"outcome", outcome}}).Increment(); }

void Metrics::subscriber_refused(const std::string& reason) {
  refused_subscribers_.Add({{"reason", reason}}).Increment();
}

void Metrics::raise(std::atomic<int64_t>& high_water, int64_t value) {
  int64_t seen = high_water.load(std::memory_order_relaxed);
  while (value > seen && !high_water.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

void Metrics::chunk(StreamClass stream_class, Clock::duration waited, Clock::duration latency) {
  queue_stage_.Observe(seconds(waited));
  (stream_class == StreamClass::live ? live_chunk_latency_ : upload_chunk_latency_).Observe(seconds(latency));
}

void Metrics::tick(const TickTimes& times, const EngineStats& before, const EngineStats& after) {
  stale_calls_.Increment(static_cast<double>(after.stale_calls - before.stale_calls));
  failed_streams_.Increment(static_cast<double>(after.failed_streams - before.failed_streams));
  forward_seconds_.Increment(after.forward_seconds - before.forward_seconds);
  feature_seconds_.Increment(after.feature_seconds - before.feature_seconds);
  decode_seconds_.Increment(after.decode_seconds - before.decode_seconds);
  rescore_seconds_.Increment(after.rescore_seconds - before.rescore_seconds);
  if (after.rescored_segments != before.rescored_segments) {
    rescore_stage_.Observe(after.rescore_seconds - before.rescore_seconds);
  }
  if (after.lanes == before.lanes) return;
  features_stage_.Observe(after.feature_seconds - before.feature_seconds);
  forward_stage_.Observe(after.forward_seconds - before.forward_seconds);
  decode_stage_.Observe(after.decode_seconds - before.decode_seconds);
  emit_stage_.Observe(seconds(times.emit));
  ticks_.Increment();
  batch_size_.Observe(static_cast<double>(after.lanes - before.lanes));
  tick_seconds_.Observe(seconds(times.whole));
}

std::string Metrics::text() const {
  stream_mailbox_gauge_.Set(static_cast<double>(stream_mailbox_));
  owner_mailbox_gauge_.Set(static_cast<double>(owner_mailbox_));
  std::ostringstream out;
  const prometheus::TextSerializer serializer;
  serializer.Serialize(out, registry_.Collect());
  for (const auto& source : sources_) serializer.Serialize(out, source->Collect());
  return out.str();
}

}  // namespace tutti
