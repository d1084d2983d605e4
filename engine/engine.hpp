#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/engine_config.hpp"
#include "config/result.hpp"
#include "decode/endpoint.hpp"
#include "decode/text.hpp"
#include "engine/clock.hpp"
#include "engine/scheduler.hpp"
#include "engine/stream_snapshot.hpp"
#include "gpu/ops.hpp"
#include "model/conformer.hpp"

namespace tutti {

/// Names a stream of one engine: a slot and the number of times it has been given out. A stale key is ignored
/// by every call and counted in EngineStats::stale_calls.
struct StreamKey {
  int32_t slot = -1;
  uint32_t generation = 0;
  bool operator==(const StreamKey&) const = default;
};

struct StreamOptions {
  StreamClass stream_class = StreamClass::live;
  bool interim = true;        ///< emit partials
  bool words = true;          ///< fill Update::words of finals
  bool voice_events = false;  ///< emit speech_started and speech_stopped
  EndpointRules endpoint = EndpointRules::none();
  int tag = 0;  ///< the caller's own name for the stream; nothing to the engine
};

enum class FinalReason : uint8_t { endpoint, eof, finalize, length };
[[nodiscard]] std::string_view to_string(FinalReason reason);

/// What a tick says about one stream. Times are samples at the model's rate since the stream's first sample.
struct Update {
  enum class Kind : uint8_t {
    speech_started,  ///< at start_sample
    speech_stopped,  ///< at start_sample
    partial,         ///< text so far of the open segment
    final,           ///< the segment is closed
    done,            ///< after the last final of finish(); the stream is released
    error,           ///< the stream ended alone; `text` says why; it is released
    consumed,        ///< nothing to say, only `consumed_samples`
  };
  Kind kind = Kind::partial;
  StreamKey key;
  int32_t segment = 0;
  std::string text;
  int64_t start_sample = 0;  ///< of the first token, or of the segment when there is none
  int64_t end_sample = 0;
  float confidence = 0;
  FinalReason reason = FinalReason::endpoint;
  std::vector<Word> words;  ///< the first `word_count` entries, on frames from the segment's first
  size_t word_count = 0;
  int64_t segment_sample = 0;    ///< sample of frame 0 of `words`
  int64_t event = 0;             ///< finals and voice events of the stream before this update
  int64_t consumed_samples = 0;  ///< fed samples that left the input buffer since the last update (credit)
  int64_t audio_samples = 0;     ///< fed to the stream in all
  Clock::time_point ready_at{};  ///< when the last sample this update needed arrived
};

/// A chunk that a tick forwarded.
struct ChunkTiming {
  Clock::time_point ready;  ///< its audio had come, and the chunk before it was done
  StreamClass stream_class = StreamClass::live;
  StreamKey key;  ///< of its stream
};

/// Whether an update says what holds from then on: finals and voice events, which a stream says once each.
[[nodiscard]] bool is_lasting(Update::Kind kind);

struct EngineStats {
  int64_t ticks = 0;
  int64_t lanes = 0;  ///< chunks forwarded: lanes summed over ticks
  int64_t stale_calls = 0;
  int64_t failed_streams = 0;  ///< ended by an error of their own
  double forward_seconds = 0;
  double feature_seconds = 0;
  double decode_seconds = 0;
  int64_t rescored_segments = 0;
  double rescore_seconds = 0;  ///< beside the above
  DeviceUse device;            ///< since the device was opened
  int snapshots_under_way = 0;
  int64_t snapshot_bytes_under_way = 0;
};

/// The history, capacity and lanes of `config`; the rest of the geometry is the model's.
[[nodiscard]] CacheConfig cache_limits(const EngineConfig& config);
/// Positions a model needs for `config`: see EngineConfig::max_position_frames. Throws SetupError for a
/// history too long for a table of them.
[[nodiscard]] int required_positions(const EngineConfig& config);
/// Tokens of a hypothesis that a model's decoders are loaded for: 0 unless `config` asks for rescoring.
[[nodiscard]] int required_hypothesis_tokens(const EngineConfig& config);

/// One device's worth of recognizer: a model, its caches, a decoder and a scheduler. Single-threaded; knows
/// nothing of actors or sockets.
///
/// The life of a stream: admit, feed..., (finalize | reset)..., finish or release. Commands only note what is
/// asked; tick() does the work and reports it.
class Engine {
 public:
  /// Throws SetupError or std::invalid_argument when the configuration does not fit the model or the device.
  Engine(std::shared_ptr<const ConformerCtc> model, std::unique_ptr<Ops> ops, const EngineConfig& config);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Does once, with no stream in it, what a device would else do during the first ticks:
  /// ModelRunner::warm_up. Takes memory that is kept.
  void warm_up();

  /// Fails with "full" when no slot or no reserved history is free.
  [[nodiscard]] Result<StreamKey> admit(const StreamOptions& options);
  /// Samples at the model's rate in [-1, 1). Fails with "buffer_full" (nothing taken) past max_buffered_ms,
  /// and with "after_eof" after finish().
  Result<void> feed(StreamKey key, std::span<const float> samples, Clock::time_point arrival = Clock::now());
  /// Everything fed so far becomes exactly one final with reason `finalize`; audio fed later is a new
  /// segment. Fails with "too_many_commands" while max_pending_commands wait for their turn, with "after_eof"
  /// after finish().
  Result<void> finalize(StreamKey key, Clock::time_point arrival = Clock::now());
  /// finalize with reason `eof`, then `done` and release. Fails as finalize.
  Result<void> finish(StreamKey key, Clock::time_point arrival = Clock::now());
  /// Forgets the open segment, the audio fed so far, caches and positions, without a final; the sample clock
  /// goes on. A finalize asked for before still gets its final. Fails as finalize.
  Result<void> reset(StreamKey key);
  /// Ends the stream at once, silently.
  void release(StreamKey key);

  static constexpr int max_pending_commands = 8;

  /// What an engine of the same model and configuration needs to go on with the stream as this one would, to
  /// the bit. Between ticks. What waits is not part of it: audio from StreamSnapshot::sample on, and commands
  /// that were not carried out. Nothing for a stale key.
  [[nodiscard]] std::optional<StreamSnapshot> snapshot(StreamKey key);
  /// The same without waiting for the device: it comes from next_snapshot(), as the stream is now, whatever
  /// becomes of it. Returns the commands that the snapshot knows of, or nothing, when as many as may be are
  /// under way: ask again after the next tick. Nothing for a stale key.
  [[nodiscard]] std::optional<int64_t> begin_snapshot(StreamKey key);
  struct TakenSnapshot {
    StreamKey key;
    StreamSnapshot snapshot;
  };
  /// The oldest snapshot that was begun, if it has come, in order; else nothing. Does not wait.
  [[nodiscard]] std::optional<TakenSnapshot> next_snapshot();
  /// Makes a stream that was just admitted the one of the snapshot: feed it from StreamSnapshot::sample on.
  /// Fails with "bad_snapshot" for one of another model or configuration, or a stream that was fed or told
  /// anything; the stream is as it was.
  Result<void> restore(StreamKey key, const StreamSnapshot& snapshot);

  /// Whether tick() would do something.
  [[nodiscard]] bool has_work() const;
  /// How long tick() has nothing to do although there is work: it is of uploads alone, and they rest beside
  /// live streams. Zero as a rule.
  [[nodiscard]] Clock::duration rest() const;
  /// Runs at most one batched forward and returns what there is to say, in order per stream. The updates are
  /// valid until the next call.
  std::span<const Update> tick();

  [[nodiscard]] int free_streams() const;
  [[nodiscard]] int open_streams() const;
  [[nodiscard]] int sample_rate() const;
  /// Duration of a full chunk.
  [[nodiscard]] int chunk_ms() const;
  /// Samples per encoder frame: what turns Word frames into times.
  [[nodiscard]] int samples_per_frame() const;
  /// A stream with so many samples waiting has a chunk to forward, whatever came before.
  [[nodiscard]] int window_samples() const;
  /// How many samples less it is after a chunk that was forwarded before, without a reset since.
  [[nodiscard]] int overlap_samples() const;
  /// Of the last tick; valid until the next.
  [[nodiscard]] std::span<const ChunkTiming> chunk_timings() const;
  [[nodiscard]] int kv_blocks() const;
  [[nodiscard]] int kv_blocks_used() const;
  [[nodiscard]] const EngineStats& stats() const;
  [[nodiscard]] const EngineConfig& config() const;
  [[nodiscard]] const ConformerCtc& model() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
