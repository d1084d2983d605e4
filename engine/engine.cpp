#include "engine/engine.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

#include "decode/ctc_prefix_beam.hpp"
#include "decode/device_ctc.hpp"
#include "engine/engine_impl.hpp"

namespace tutti {

namespace {

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

std::unique_ptr<const CtcDecoder> make_decoder(const EngineConfig& config, const ConformerSpec& model,
                                               Ops& ops) {
  CtcSearchSpec spec{.blank_id = model.blank_id, .beam = 0, .max_tokens = config.max_segment_tokens};
  std::unique_ptr<const CtcDecoder> host;
  if (config.decoder == "greedy") {
    host = std::make_unique<CtcGreedyDecoder>(spec.blank_id, spec.max_tokens);
  } else if (config.decoder == "prefix" || config.decoder == "rescore") {
    spec.beam = config.beam;
    host = std::make_unique<CtcPrefixBeamDecoder>(spec.blank_id, spec.beam, spec.max_tokens);
  } else {
    throw SetupError("engine.decoder = '" + config.decoder + "': expected greedy, prefix or rescore");
  }
  auto search = ops.make_ctc_search(spec, config.max_streams);
  if (!search) return host;
  return std::make_unique<DeviceCtcDecoder>(std::move(host), std::move(search), ops,
                                            config.max_batch_size * config.chunk_size);
}

ModelRunner make_runner(std::shared_ptr<const ConformerCtc> model, std::unique_ptr<Ops> ops,
                        const EngineConfig& config) {
  auto decoder = make_decoder(config, model->spec(), *ops);
  return {std::move(model), std::move(ops), cache_limits(config), std::move(decoder)};
}

// A chunk's frames may end and begin speech more than once, but not more often than this.
size_t max_voice_events(int chunk_size) {
  return 2 + 2 * static_cast<size_t>(chunk_size / VoiceActivity::Options{}.stop_frames);
}

}  // namespace

std::chrono::nanoseconds thread_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

std::string_view to_string(FinalReason reason) {
  switch (reason) {
    case FinalReason::endpoint:
      return "endpoint";
    case FinalReason::eof:
      return "eof";
    case FinalReason::finalize:
      return "finalize";
    case FinalReason::length:
      return "length";
  }
  return "endpoint";
}

bool is_lasting(Update::Kind kind) {
  return kind == Update::Kind::final || kind == Update::Kind::speech_started ||
         kind == Update::Kind::speech_stopped;
}

CacheConfig cache_limits(const EngineConfig& config) {
  CacheConfig cache;
  cache.chunk_size = config.chunk_size;
  cache.num_left_chunks = config.num_left_chunks;
  cache.block_size_frames = config.block_size_frames;
  cache.max_num_blocks = config.max_num_blocks;
  cache.max_blocks_per_seq = config.max_blocks_per_seq;
  cache.max_streams = config.max_streams;
  cache.max_batch_size = config.max_batch_size;
  cache.recycle_at_capacity = config.at_capacity == "recycle";
  return cache;
}

int required_positions(const EngineConfig& config) {
  constexpr int reference_table = 5000;  // rows of the reference's own table: what "never restart" can mean
  constexpr int64_t most = 1 << 20;      // half a day of history, and a table that still fits in memory
  const int64_t block = config.block_size_frames == 0 ? config.chunk_size : config.block_size_frames;
  const int64_t history = config.num_left_chunks < 0 ? config.max_blocks_per_seq * block
                                                     : int64_t{config.num_left_chunks} * config.chunk_size;
  if (history > most) {
    throw SetupError("a stream's history may be " + std::to_string(history) +
                     " frames long, expected at most " + std::to_string(most) +
                     "; lower engine.max_blocks_per_seq, engine.block_size_frames or "
                     "engine.num_left_chunks");
  }
  const int restart = config.max_position_frames == 0 ? reference_table : overdue_position(config);
  return std::max(static_cast<int>(history), restart) + config.chunk_size;
}

int required_hypothesis_tokens(const EngineConfig& config) {
  return config.decoder == "rescore" ? std::min(config.max_segment_tokens, config.max_rescored_frames) : 0;
}

Engine::Impl::Impl(std::shared_ptr<const ConformerCtc> model, std::unique_ptr<Ops> ops,
                   const EngineConfig& config_)
    : config(config_),
      runner(make_runner(model, std::move(ops), config_)),
      geometry(ConformerCtc::geometry(config_.chunk_size)),
      samples_per_frame(model->spec().fbank.frame_shift() * geometry.subsampling),
      frame_shift(model->spec().fbank.frame_shift()),
      frame_length(model->spec().fbank.frame_length()),
      chunk_duration(std::chrono::microseconds(int64_t{1000000} * geometry.stride * frame_shift /
                                               model->spec().fbank.sample_rate)),
      slots(config_.max_streams),
      scheduler(config_.max_streams),
      lane_limit(config_.max_batch_size),
      rescore_limit(config_.max_batch_size) {
  if (model->max_positions() < required_positions(config)) {
    throw std::invalid_argument("the model was loaded with " + std::to_string(model->max_positions()) +
                                " positions, this configuration needs " +
                                std::to_string(required_positions(config)));
  }
  const auto n = static_cast<size_t>(config.max_streams);
  const auto width = static_cast<size_t>(config.max_batch_size);
  const int64_t capacity = int64_t{config.max_buffered_ms} * model->spec().fbank.sample_rate / 1000;
  const int64_t mel = model->spec().fbank.num_mel_bins;
  features = runner.ops().allocate(DType::f32, {config.max_streams * int64_t{geometry.window}, mel});
  streams.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    const auto slot = static_cast<int64_t>(i);
    streams.emplace_back(capacity, features.view().slice(slot * geometry.window, geometry.window));
    streams.back().partial.reserve(static_cast<size_t>(config.max_segment_tokens));
  }
  candidates.reserve(n);
  picked.reserve(width);
  chunks.reserve(width);
  timings.reserve(width);
  lanes.reserve(width);
  jobs.reserve(width);
  const size_t rows = width * static_cast<size_t>(config.chunk_size);
  energies = runner.ops().allocate(DType::f32, {static_cast<int64_t>(rows)});
  energy_rows.reserve(rows);
  results.energies.reserve(rows);
  results.top_ids.reserve(rows * static_cast<size_t>(runner.top_k()));
  results.top_log_probs.reserve(rows * static_cast<size_t>(runner.top_k()));
  const size_t overlap_rows = width * static_cast<size_t>(geometry.overlap());
  overlap_from.reserve(overlap_rows);
  overlap_to.reserve(overlap_rows);
  overlaps = runner.ops().allocate(DType::f32, {static_cast<int64_t>(overlap_rows), mel});
  // A stream says at most: voice events, length, partial or final, and what its commands ask for.
  const size_t told = 2 * width * (1 + max_voice_events(config.chunk_size));
  updates.resize(3 * n + told);
  for (size_t i = 0; i < told; ++i)
    updates[i].text.reserve(static_cast<size_t>(config.max_segment_tokens) * 4);
  if (config.decoder == "rescore") {
    prepare_rescoring();
  } else if (config.decoder_kv != EngineConfig{}.decoder_kv) {
    throw SetupError("engine.decoder_kv = '" + config.decoder_kv + "': engine.decoder = '" + config.decoder +
                     "' has no attention decoder to store keys and values of; expected '" +
                     EngineConfig{}.decoder_kv + "', or engine.decoder = 'rescore'");
  }
  outbox = make_outbox();
  stats.device = runner.ops().device_use();
}

Stream* Engine::Impl::find(StreamKey key) {
  const bool in_range = key.slot >= 0 && key.slot < static_cast<int>(streams.size());
  if (in_range) {
    Stream& stream = streams[static_cast<size_t>(key.slot)];
    if (stream.open && stream.generation == key.generation) return &stream;
  }
  ++stats.stale_calls;
  return nullptr;
}

StreamKey Engine::Impl::key_of(int slot) const {
  return {slot, streams[static_cast<size_t>(slot)].generation};
}

Result<void> Engine::Impl::command(StreamKey key, Command::Kind kind, Clock::time_point arrival) {
  Stream* const stream = find(key);
  if (stream == nullptr) return {};
  if (stream->finishing) return fail("after_eof", "the stream was told that its audio has ended");
  if (!stream->commands.push({kind, stream->audio.end(), arrival})) {
    return fail("too_many_commands",
                "more than " + std::to_string(max_pending_commands) + " commands wait to be carried out");
  }
  stream->finishing = kind == Command::Kind::finish;
  return {};
}

void Engine::Impl::close(int slot) {
  Stream& stream = streams[static_cast<size_t>(slot)];
  stream.caches->free();
  stream.caches.reset();
  stream.open = false;
  if (stream.options.stream_class == StreamClass::live) --live_streams;
  slots.free(slot);
}

Engine::Engine(std::shared_ptr<const ConformerCtc> model, std::unique_ptr<Ops> ops,
               const EngineConfig& config)
    : impl_(std::make_unique<Impl>(std::move(model), std::move(ops), config)) {}
Engine::~Engine() = default;

void Engine::warm_up() {
  impl_->runner.warm_up();
  impl_->stats.device = impl_->runner.ops().device_use();
}

Result<StreamKey> Engine::admit(const StreamOptions& options) {
  const auto full = [this] {
    return fail("full",
                "all " + std::to_string(impl_->config.max_streams) + " streams of this device are in use");
  };
  if (!impl_->runner.attention().can_admit()) return full();
  const auto slot = impl_->slots.allocate();
  if (!slot) return full();
  Stream& stream = impl_->streams[static_cast<size_t>(*slot)];
  ++stream.generation;
  const StreamId id = (static_cast<StreamId>(stream.generation) << 32) | *slot;
  stream.caches.emplace(impl_->runner.view(id, *slot));
  stream.caches->allocate();
  stream.open = true;
  stream.finishing = false;
  stream.options = options;
  if (options.stream_class == StreamClass::live) ++impl_->live_streams;
  stream.audio.restart();
  stream.commands.clear();
  stream.commands_done = 0;
  stream.events = 0;
  stream.chunk_done = {};
  stream.carried_rows = 0;
  stream.position = 0;
  stream.segment = 0;
  stream.segment_sample = 0;
  stream.reported_sample = 0;
  stream.partial.clear();
  stream.voice = VoiceActivity();
  stream.voice_sample = 0;
  stream.kept_frames = 0;
  return impl_->key_of(*slot);
}

Result<void> Engine::feed(StreamKey key, std::span<const float> samples, Clock::time_point arrival) {
  Stream* const stream = impl_->find(key);
  if (stream == nullptr) return {};
  if (stream->finishing) return fail("after_eof", "the stream was told that its audio has ended");
  if (!stream->audio.append(samples, arrival)) {
    return fail("buffer_full", "more than " + std::to_string(impl_->config.max_buffered_ms) +
                                   " ms of audio wait to be recognized");
  }
  return {};
}

Result<void> Engine::finalize(StreamKey key, Clock::time_point arrival) {
  return impl_->command(key, Command::Kind::finalize, arrival);
}

Result<void> Engine::finish(StreamKey key, Clock::time_point arrival) {
  return impl_->command(key, Command::Kind::finish, arrival);
}

Result<void> Engine::reset(StreamKey key) { return impl_->command(key, Command::Kind::reset, {}); }

void Engine::release(StreamKey key) {
  if (impl_->find(key) != nullptr) impl_->close(key.slot);
}

bool Engine::has_work() const {
  return std::any_of(impl_->streams.begin(), impl_->streams.end(), [this](const Stream& stream) {
    return stream.open && (stream.commands.front() != nullptr || impl_->ready_chunk(stream).has_value());
  });
}

Clock::duration Engine::rest() const {
  const Impl& e = *impl_;
  if (e.live_streams == 0) return {};
  const Clock::duration rest = std::max(e.background_pace.rest(Clock::now()), Clock::duration::zero());
  const auto is_ready = [&e](const Stream& stream) { return e.is_ready_in_rest(stream); };
  return rest == rest.zero() || std::ranges::any_of(e.streams, is_ready) ? rest.zero() : rest;
}

std::span<const Update> Engine::tick() {
  Impl& e = *impl_;
  e.update_count = 0;
  e.collect_candidates();
  const auto picked = e.scheduler.pick(e.candidates, e.tick_lanes());
  e.picked.assign(picked.begin(), picked.end());
  e.make_room();
  e.timings.clear();
  const Clock::time_point start = Clock::now();
  if (!e.picked.empty()) {
    const std::chrono::nanoseconds cost_before = e.work_time();
    e.compute_features();
    const Clock::time_point features_done = Clock::now();
    const EncoderOutput out = e.forward();
    const Clock::time_point forward_done = Clock::now();
    e.decode(out);
    const Clock::time_point done = Clock::now();
    const auto width = static_cast<int>(e.picked.size());
    for (const Candidate& lane : e.picked) e.streams[static_cast<size_t>(lane.slot)].chunk_done = done;
    e.lane_limit.record(width, e.work_time() - cost_before);
    ++e.stats.ticks;
    e.stats.lanes += width;
    e.stats.feature_seconds += seconds(features_done - start);
    e.stats.forward_seconds += seconds(forward_done - features_done);
    e.stats.decode_seconds += seconds(done - forward_done);
  }
  e.run_commands();
  e.rescore_finals();
  // Live streams come first in a tick. The segments of uploads are rescored on their time too.
  if (!e.picked.empty() && e.picked.front().stream_class == StreamClass::background) {
    e.background_pace.record(start, Clock::now());
  }
  e.report_consumed();
  e.stats.device = e.runner.ops().device_use();
  return std::span(e.updates).first(e.update_count);
}

int Engine::free_streams() const { return impl_->slots.num_free(); }
int Engine::open_streams() const { return impl_->slots.capacity() - impl_->slots.num_free(); }
int Engine::sample_rate() const { return impl_->runner.model().spec().fbank.sample_rate; }
int Engine::chunk_ms() const {
  return static_cast<int>(
      std::chrono::duration_cast<std::chrono::milliseconds>(impl_->chunk_duration).count());
}
int Engine::samples_per_frame() const { return impl_->samples_per_frame; }
int Engine::window_samples() const {
  return (impl_->geometry.window - 1) * impl_->frame_shift + impl_->frame_length;
}
int Engine::overlap_samples() const { return impl_->geometry.overlap() * impl_->frame_shift; }
std::span<const ChunkTiming> Engine::chunk_timings() const { return impl_->timings; }
int Engine::kv_blocks() const { return impl_->runner.pool().num_blocks(); }
int Engine::kv_blocks_used() const { return kv_blocks() - impl_->runner.pool().num_free(); }
const EngineStats& Engine::stats() const { return impl_->stats; }
const EngineConfig& Engine::config() const { return impl_->config; }
const ConformerCtc& Engine::model() const { return impl_->runner.model(); }

}  // namespace tutti
