#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/stream_slot_pool.hpp"
#include "engine/engine.hpp"
#include "engine/model_runner.hpp"
#include "engine/rescorer.hpp"
#include "engine/stream.hpp"

namespace tutti {

// A restart is due at max_position_frames and overdue at 1.5 times that.
[[nodiscard]] inline int overdue_position(const EngineConfig& config) {
  return config.max_position_frames * 3 / 2;
}

/// What this thread has cost: work that was preempted did not take longer to compute.
[[nodiscard]] std::chrono::nanoseconds thread_time();

/// A final that was announced and waits for its hypotheses to be rescored.
struct PendingFinal {
  int slot = 0;
  size_t update = 0;  // index of the final
  int64_t end_sample = 0;
};

/// What a tick reads back of its chunks, row by row as in EncoderOutput.
struct TickResults {
  std::vector<int32_t> top_ids;      // (rows, k)
  std::vector<float> top_log_probs;  // (rows, k)
  std::vector<float> energies;       // (rows): the mean of the features that a row sees first
};

/// A stream's past that the device has, part by part, in the order in which they leave it: floats, and bytes
/// of the decoder's state.
struct PastSizes {
  int64_t keys_values = 0;
  int64_t convolution = 0;
  int64_t features = 0;
  int64_t rescorable_frames = 0;
  int64_t decoder = 0;
  [[nodiscard]] int64_t bytes() const {
    const int64_t floats = keys_values + convolution + features + rescorable_frames;
    return floats * static_cast<int64_t>(sizeof(float)) + decoder;
  }
};

/// A snapshot that was begun.
struct SnapshotUnderWay {
  Engine::TakenSnapshot taken;
  PastSizes sizes;  // of what has to come
};

/// The state of an engine and the steps of its tick: engine.cpp has its life and the commands it is given,
/// engine_tick.cpp what a tick does, engine_segments.cpp how segments open and close and what is said of
/// them, engine_rescoring.cpp how their hypotheses are rescored, engine_snapshot.cpp how they move.
struct Engine::Impl {
  Impl(std::shared_ptr<const ConformerCtc> model, std::unique_ptr<Ops> ops, const EngineConfig& config);

  Stream* find(StreamKey key);
  [[nodiscard]] StreamKey key_of(int slot) const;
  Result<void> command(StreamKey key, Command::Kind kind, Clock::time_point arrival);
  void close(int slot);

  [[nodiscard]] std::optional<ReadyChunk> ready_chunk(const Stream& stream) const;
  [[nodiscard]] std::chrono::nanoseconds work_time() const;
  [[nodiscard]] TickLanes tick_lanes() const;
  [[nodiscard]] bool is_ready_in_rest(const Stream& stream) const;
  [[nodiscard]] int feature_frames_before(const Stream& stream, int64_t sample) const;

  void run_commands();
  bool run_command(int slot);
  void collect_candidates();
  void make_room();
  void compute_features();
  EncoderOutput forward();
  void read_results(const EncoderOutput& out);
  void decode(const EncoderOutput& out);
  void decode_lane(size_t lane, const EncoderOutput& out);
  void observe_voice(int slot, const CtcFrames& best, const float* energies_of_rows,
                     Clock::time_point ready_at);
  void voice_event(int slot, bool started, int64_t sample, Clock::time_point ready_at);
  bool end_segment_by_rule(int slot, Clock::time_point ready_at);
  void report_consumed();

  void prepare_rescoring();
  void keep_frames(Stream& stream, const TensorView& encoder_out);
  [[nodiscard]] bool frames_are_full(const Stream& stream) const;
  [[nodiscard]] bool must_wait_for_rescoring(const Stream& stream) const;
  void postpone_final(int slot, size_t update, int64_t end_sample);
  void rescore_finals();
  void fail_rescoring(const PendingFinal& final);
  void drop_later_updates(size_t index);

  void close_segment(int slot, FinalReason reason, Clock::time_point ready_at, int64_t end_sample);
  void begin_segment(Stream& stream);
  void restart_positions_if(Stream& stream, int limit);
  void reset_segment(Stream& stream, int64_t sample);
  void drop_consumed(int slot, int feature_frames);
  void carry_overlaps();

  [[nodiscard]] std::unique_ptr<Outbox> make_outbox();
  [[nodiscard]] PastSizes past_sizes(const Stream& stream) const;
  [[nodiscard]] StreamSnapshot without_device_past(const Stream& stream, const PastSizes& sizes) const;
  void gather_past(const Stream& stream, const PastSizes& sizes, std::byte* to);
  [[nodiscard]] StreamSnapshot whole_snapshot(const Stream& stream);
  [[nodiscard]] bool send_snapshot(StreamKey key, const Stream& stream);
  [[nodiscard]] std::string misfit(const StreamSnapshot::Past& past) const;
  void restore_past(Stream& stream, const StreamSnapshot::Past& past);

  Update& next_update(Update::Kind kind, int slot);
  void fill_tokens(Update& update, std::span<const CtcToken> tokens);
  void fill_final(Update& update, std::span<const CtcToken> tokens, bool words, int64_t end_sample);

  EngineConfig config;
  ModelRunner runner;
  StreamingGeometry geometry;
  int samples_per_frame;
  int frame_shift;
  int frame_length;
  Clock::duration chunk_duration;
  StreamSlotPool slots;
  Tensor features;  // (max_streams * window, mel): each stream's window
  std::vector<Stream> streams;
  Scheduler scheduler;
  LaneLimit lane_limit;
  int live_streams = 0;  // open
  BackgroundPace background_pace;
  std::vector<Candidate> candidates;
  std::vector<Candidate> picked;
  std::vector<ReadyChunk> chunks;    // of `picked`
  std::vector<ChunkTiming> timings;  // of the last tick
  std::vector<ChunkLane> lanes;
  std::vector<FbankJob> jobs;
  Tensor energies;                   // (max_batch_size * chunk_size)
  std::vector<int32_t> energy_rows;  // of `features`, of each row of the tick
  TickResults results;
  std::vector<int32_t> overlap_from;  // rows of `features` that the next windows begin with
  std::vector<int32_t> overlap_to;
  Tensor overlaps;              // (max_batch_size * overlap, mel), on their way
  std::vector<Update> updates;  // the first update_count are this tick's; the rest keep their memory
  size_t update_count = 0;
  std::optional<Rescorer> rescorer;
  LaneLimit rescore_limit;
  std::vector<RescoredSegment> rescored;  // one for each of the finals that a tick may have
  std::vector<PendingFinal> pending;      // of `rescored`, in the order of their updates
  size_t finals_by_rule = 0;              // of them, before the tick's commands
  std::unique_ptr<Outbox> outbox;         // of snapshots; null where the device has none
  std::deque<SnapshotUnderWay> snapshots;
  EngineStats stats;
};

}  // namespace tutti
