#pragma once

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/interfaces.hpp"
#include "actors/stream_context.hpp"

namespace tutti::test {

/// What a fake owner was asked, and how it answers.
struct OwnerLog {
  int max_streams = 8;
  std::string model_identity;
  int admitted = 0;
  std::vector<StreamActor> streams;    // by slot
  std::vector<StreamOptions> options;  // by slot
  std::vector<float> samples;          // of all streams
  int feeds = 0;
  int64_t unconsumed = 0;
  int64_t most_unconsumed = 0;
  std::vector<int64_t> finalized_at;  // samples fed before each finalize
  std::vector<int64_t> reset_at;      // and each reset
  int finished = 0;
  std::vector<StreamKey> released;
  std::vector<StreamStart> restored;
  bool overloaded = false;
  /// Answers nobody, but keeps whom it owes an answer; a tick_atom pays for the pings.
  bool hung = false;
  std::vector<caf::typed_response_promise<OwnerHealth>> pings;
  std::vector<caf::typed_response_promise<Admission>> admissions;

  [[nodiscard]] OwnerHealth health() const {
    return {.overloaded = overloaded, .free = max_streams - admitted};
  }
};

inline RecognizerInfo fake_info(int max_streams, std::string model_identity = {}) {
  return {.model = "fake",
          .model_identity = std::move(model_identity),
          .sample_rate = 16000,
          .chunk_ms = 640,
          .samples_per_frame = 640,
          .max_streams = max_streams,
          .snapshot_samples = 80000,
          .max_buffered_ms = 20000};
}

/// An owner without an engine: it answers to the typed interface and notes everything.
inline GpuOwner::behavior_type fake_owner(GpuOwner::pointer self, std::shared_ptr<OwnerLog> log) {
  return {
      [log](start_atom) -> Started { return fake_info(log->max_streams, log->model_identity); },
      [self, log](admit_atom, const StreamOptions& options,
                  const StreamActor& stream) -> caf::result<Admission> {
        if (log->hung) {
          log->admissions.push_back(self->make_response_promise<Admission>());
          return log->admissions.back();
        }
        if (log->admitted == log->max_streams) return Admission(fail("full", "no slot is free"));
        const StreamKey key{log->admitted++, 1};
        log->streams.push_back(stream);
        log->options.push_back(options);
        return Admission(std::make_shared<StreamContext>(GpuOwner{self}, key, options,
                                                         fake_info(log->max_streams, log->model_identity)));
      },
      [log](feed_atom, StreamKey, const AudioSamples& audio) {
        const auto& items = audio.samples->items;
        log->samples.insert(log->samples.end(), items.begin(), items.end());
        ++log->feeds;
        log->unconsumed += static_cast<int64_t>(items.size());
        log->most_unconsumed = std::max(log->most_unconsumed, log->unconsumed);
      },
      [log](finalize_atom, const SegmentCommand&) {
        log->finalized_at.push_back(static_cast<int64_t>(log->samples.size()));
      },
      [log](finish_atom, const SegmentCommand&) { ++log->finished; },
      [log](reset_atom, StreamKey) { log->reset_at.push_back(static_cast<int64_t>(log->samples.size())); },
      [](wake_atom) {},
      [log](restore_atom, const StreamStart& start) { log->restored.push_back(start); },
      [self, log](ping_atom) -> caf::result<OwnerHealth> {
        if (!log->hung) return log->health();
        log->pings.push_back(self->make_response_promise<OwnerHealth>());
        return log->pings.back();
      },
      [log](release_atom, StreamKey key) { log->released.push_back(key); },
      [log](tick_atom) {
        for (auto& ping : std::exchange(log->pings, {})) ping.deliver(log->health());
      },
  };
}

inline void send_update(const StreamActor& stream, Update update) {
  caf::anon_send(stream, update_atom_v, StreamUpdates{make_buffer(std::vector{std::move(update)})});
}

/// The engine took `samples` out of its buffer.
inline void consume(OwnerLog& log, const StreamActor& stream, int64_t samples) {
  log.unconsumed -= samples;
  Update update;
  update.kind = Update::Kind::consumed;
  update.consumed_samples = samples;
  send_update(stream, update);
}

}  // namespace tutti::test
