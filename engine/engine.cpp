#include "engine/engine.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>
#include <utility>

#include "cache/stream_slot_pool.hpp"
#include "decode/ctc_prefix_beam.hpp"
#include "engine/model_runner.hpp"
#include "engine/stream.hpp"

namespace tutti {

namespace {

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

// What this thread has cost: a tick that was preempted did not take longer to compute.
std::chrono::nanoseconds thread_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
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
  return cache;
}

std::unique_ptr<const CtcDecoder> make_decoder(const EngineConfig& config, const ConformerSpec& spec) {
  if (config.decoder == "greedy") {
    return std::make_unique<CtcGreedyDecoder>(spec.blank_id, config.max_segment_tokens);
  }
  if (config.decoder == "prefix") {
    return std::make_unique<CtcPrefixBeamDecoder>(spec.blank_id, config.beam, config.max_segment_tokens);
  }
  throw SetupError("engine.decoder = '" + config.decoder + "': expected greedy or prefix");
}

// Two tokens of one hypothesis look the same to who reads its text.
bool same_token(const CtcToken& a, const CtcToken& b) { return a.id == b.id; }

// A chunk's frames may end and begin speech more than once, but not more often than this.
size_t max_voice_events(int chunk_size) {
  return 2 + 2 * static_cast<size_t>(chunk_size / VoiceActivity::Options{}.stop_frames);
}

// A restart is due at max_position_frames and overdue at 1.5 times that.
int overdue_position(const EngineConfig& config) { return config.max_position_frames * 3 / 2; }

}  // namespace

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

int required_positions(const EngineConfig& config) {
  constexpr int reference_table = 5000;  // rows of the reference's own table: what "never restart" can mean
  const int block = config.block_size_frames == 0 ? config.chunk_size : config.block_size_frames;
  const int history = config.num_left_chunks < 0 ? config.max_blocks_per_seq * block
                                                 : config.num_left_chunks * config.chunk_size;
  const int restart = config.max_position_frames == 0 ? reference_table : overdue_position(config);
  return std::max(history, restart) + config.chunk_size;
}

struct Engine::Impl {
  Impl(std::shared_ptr<const ConformerCtc> model, std::unique_ptr<Ops> ops, const EngineConfig& config);

  Stream* find(StreamKey key);
  [[nodiscard]] StreamKey key_of(int slot) const;
  Result<void> command(StreamKey key, Command::Kind kind, Clock::time_point arrival);
  void close(int slot);

  [[nodiscard]] std::optional<ReadyChunk> ready_chunk(const Stream& stream) const;
  [[nodiscard]] int feature_frames_before(const Stream& stream, int64_t sample) const;

  void run_commands();
  bool run_command(int slot);
  void collect_candidates();
  void make_room();
  void compute_features();
  EncoderOutput forward();
  void decode(const EncoderOutput& out);
  void decode_lane(size_t lane, const EncoderOutput& out);
  void observe_voice(int slot, const CtcFrames& best, Clock::time_point ready_at);
  void voice_event(int slot, bool started, int64_t sample, Clock::time_point ready_at);
  bool end_segment_by_rule(int slot, Clock::time_point ready_at);
  void report_consumed();

  void close_segment(int slot, FinalReason reason, Clock::time_point ready_at, int64_t end_sample);
  void begin_segment(Stream& stream);
  void restart_positions_if(Stream& stream, int limit);
  void reset_segment(Stream& stream, int64_t sample);
  void drop_consumed(Stream& stream, int new_rows);

  Update& next_update(Update::Kind kind, int slot);
  void fill_tokens(Update& update, std::span<const CtcToken> tokens, const Stream& stream);

  EngineConfig config;
  ModelRunner runner;
  StreamingGeometry geometry;
  int samples_per_frame;
  int frame_shift;
  int frame_length;
  Clock::duration chunk_duration;
  StreamSlotPool slots;
  std::vector<Stream> streams;
  Scheduler scheduler;
  LaneLimit lane_limit;
  std::vector<Candidate> candidates;
  std::span<const Candidate> picked;
  std::vector<ReadyChunk> chunks;  // of `picked`
  std::vector<ChunkLane> lanes;
  std::vector<FbankJob> jobs;
  std::vector<Update> updates;  // the first update_count are this tick's; the rest keep their memory
  size_t update_count = 0;
  EngineStats stats;
};

Engine::Impl::Impl(std::shared_ptr<const ConformerCtc> model, std::unique_ptr<Ops> ops,
                   const EngineConfig& config_)
    : config(config_),
      runner(model, std::move(ops), cache_limits(config_), make_decoder(config_, model->spec())),
      geometry(ConformerCtc::geometry(config_.chunk_size)),
      samples_per_frame(model->spec().fbank.frame_shift() * geometry.subsampling),
      frame_shift(model->spec().fbank.frame_shift()),
      frame_length(model->spec().fbank.frame_length()),
      chunk_duration(std::chrono::microseconds(int64_t{1000000} * geometry.stride * frame_shift /
                                               model->spec().fbank.sample_rate)),
      slots(config_.max_streams),
      scheduler(config_.max_streams),
      lane_limit(config_.max_batch_size, std::chrono::milliseconds(config_.max_tick_ms)) {
  if (model->max_positions() < required_positions(config)) {
    throw std::invalid_argument("the model was loaded with " + std::to_string(model->max_positions()) +
                                " positions, this configuration needs " +
                                std::to_string(required_positions(config)));
  }
  const auto n = static_cast<size_t>(config.max_streams);
  const auto width = static_cast<size_t>(config.max_batch_size);
  const int64_t capacity = int64_t{config.max_buffered_ms} * model->spec().fbank.sample_rate / 1000;
  streams.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    streams.emplace_back(capacity, geometry, model->spec().fbank.num_mel_bins);
    streams.back().partial.reserve(static_cast<size_t>(config.max_segment_tokens));
  }
  candidates.reserve(n);
  chunks.reserve(width);
  lanes.reserve(width);
  jobs.reserve(width);
  // A stream says at most: voice events, length, partial or final, and what its commands ask for.
  const size_t told = 2 * width * (1 + max_voice_events(config.chunk_size));
  updates.resize(3 * n + told);
  for (size_t i = 0; i < told; ++i)
    updates[i].text.reserve(static_cast<size_t>(config.max_segment_tokens) * 4);
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
  slots.free(slot);
}

// Whole feature frames that the audio before `sample` completes.
int Engine::Impl::feature_frames_before(const Stream& stream, int64_t sample) const {
  const int64_t available = sample - stream.audio.begin();
  return available < frame_length ? 0 : static_cast<int>((available - frame_length) / frame_shift + 1);
}

std::optional<ReadyChunk> Engine::Impl::ready_chunk(const Stream& stream) const {
  const Command* const next = stream.commands.front();
  if (next != nullptr && next->kind == Command::Kind::reset) return std::nullopt;
  const int64_t end = next == nullptr ? stream.audio.end() : next->sample;
  const int rows = stream.carried_rows + feature_frames_before(stream, end);
  const bool full = rows >= geometry.window;
  const bool last_one = next != nullptr && rows >= geometry.min_frames;
  if (!full && !last_one) return std::nullopt;
  const int frames = std::min(rows, geometry.window);
  const int64_t new_frames = frames - stream.carried_rows;
  return ReadyChunk{frames, stream.audio.begin() + (new_frames - 1) * frame_shift + frame_length};
}

// Commands whose audio has been forwarded; those that need a last short chunk first wait for it.
void Engine::Impl::run_commands() {
  for (int slot = 0; slot < static_cast<int>(streams.size()); ++slot) {
    while (streams[static_cast<size_t>(slot)].open && run_command(slot)) {
    }
  }
}

bool Engine::Impl::run_command(int slot) {
  Stream& stream = streams[static_cast<size_t>(slot)];
  if (stream.commands.front() == nullptr || ready_chunk(stream).has_value()) return false;
  // Room for what this may say; what does not fit is said next tick.
  if (update_count + 3 > updates.size()) return false;
  const Command command = *stream.commands.front();
  stream.commands.pop();
  if (command.kind != Command::Kind::reset) {
    const bool finish = command.kind == Command::Kind::finish;
    close_segment(slot, finish ? FinalReason::eof : FinalReason::finalize, command.arrival, command.sample);
  }
  if (stream.voice.speaking()) voice_event(slot, false, command.sample, command.arrival);
  reset_segment(stream, command.sample);
  if (command.kind == Command::Kind::finish) {
    next_update(Update::Kind::done, slot).ready_at = command.arrival;
    close(slot);
  }
  return true;
}

void Engine::Impl::collect_candidates() {
  candidates.clear();
  for (int slot = 0; slot < static_cast<int>(streams.size()); ++slot) {
    const Stream& stream = streams[static_cast<size_t>(slot)];
    if (!stream.open) continue;
    if (const auto chunk = ready_chunk(stream)) {
      candidates.push_back(
          {slot, stream.audio.arrival_of(chunk->end_sample) + chunk_duration, stream.options.stream_class});
    }
  }
}

// A stream with unlimited history that has filled its share ends its segment before it is dispatched.
void Engine::Impl::make_room() {
  for (const Candidate& candidate : picked) {
    Stream& stream = streams[static_cast<size_t>(candidate.slot)];
    if (!stream.caches->at_capacity()) continue;
    const int64_t end = stream.segment_sample + stream.caches->get_decoder().frames() * samples_per_frame;
    close_segment(candidate.slot, FinalReason::length, stream.audio.arrival_of(end), end);
    stream.caches->reset();
    stream.position = 0;
  }
}

void Engine::Impl::compute_features() {
  jobs.clear();
  chunks.clear();
  const int64_t mel = runner.model().spec().fbank.num_mel_bins;
  for (const Candidate& candidate : picked) {
    Stream& stream = streams[static_cast<size_t>(candidate.slot)];
    chunks.push_back(*ready_chunk(stream));
    jobs.push_back({.samples = stream.audio.at(stream.audio.begin()),
                    .frames = chunks.back().feature_frames - stream.carried_rows,
                    .out = stream.features.view().f32() + stream.carried_rows * mel});
  }
  runner.ops().fbank(runner.model().fbank(), jobs);
}

EncoderOutput Engine::Impl::forward() {
  lanes.clear();
  for (size_t i = 0; i < picked.size(); ++i) {
    Stream& stream = streams[static_cast<size_t>(picked[i].slot)];
    const int overdue = config.max_position_frames == 0 ? runner.model().max_positions() - config.chunk_size
                                                        : overdue_position(config);
    restart_positions_if(stream, overdue);
    lanes.push_back({.id = stream.caches->id(),
                     .slot = picked[i].slot,
                     .features = stream.features.view().f32(),
                     .feature_frames = chunks[i].feature_frames,
                     .first_position = stream.position});
  }
  return runner.forward(lanes);
}

void Engine::Impl::decode(const EncoderOutput& out) {
  for (size_t lane = 0; lane < picked.size(); ++lane) decode_lane(lane, out);
}

void Engine::Impl::decode_lane(size_t lane, const EncoderOutput& out) {
  const int slot = picked[lane].slot;
  Stream& stream = streams[static_cast<size_t>(slot)];
  const ReadyChunk& chunk = chunks[lane];
  const Clock::time_point ready_at = stream.audio.arrival_of(chunk.end_sample);
  const int64_t row = out.layout.row_begin[lane];
  const int frames = out.layout.rows(static_cast<int>(lane));
  const CtcFrames best{.frames = frames,
                       .k = static_cast<int>(out.top_ids.cols()),
                       .ids = out.top_ids[row].i32(),
                       .log_probs = out.top_log_probs[row].f32()};
  for (int i = 0; i < frames * best.k; ++i) {
    if (std::isfinite(best.log_probs[i])) continue;
    Update& update = next_update(Update::Kind::error, slot);
    update.text = "recognition of this stream gave a value that is not finite; the stream has ended";
    update.ready_at = ready_at;
    ++stats.failed_streams;
    close(slot);
    return;
  }
  const StreamHandle decoder = stream.caches->get_decoder();
  decoder.decode_chunk(best);
  observe_voice(slot, best, ready_at);
  stream.position += frames;
  drop_consumed(stream, chunk.feature_frames);

  const std::span<const CtcToken> tokens = decoder.best();
  // A partial that its final follows at once would say nothing new.
  const bool final_follows = stream.commands.front() != nullptr && !ready_chunk(stream).has_value();
  if (final_follows || end_segment_by_rule(slot, ready_at)) return;
  if (stream.options.interim && !std::ranges::equal(tokens, stream.partial, same_token)) {
    stream.partial.assign(tokens.begin(), tokens.end());
    Update& update = next_update(Update::Kind::partial, slot);
    fill_tokens(update, tokens, stream);
    update.ready_at = ready_at;
  }
}

void Engine::Impl::observe_voice(int slot, const CtcFrames& best, Clock::time_point ready_at) {
  Stream& stream = streams[static_cast<size_t>(slot)];
  const int64_t mel = runner.model().spec().fbank.num_mel_bins;
  const int blank = runner.model().spec().blank_id;
  for (int i = 0; i < best.frames; ++i) {
    const float* const rows = stream.features.view().f32() + int64_t{i} * geometry.subsampling * mel;
    const int64_t values = geometry.subsampling * mel;
    const float energy = std::accumulate(rows, rows + values, 0.0F) / static_cast<float>(values);
    const float probability = std::exp(best.log_probs[int64_t{i} * best.k]);
    const bool is_blank = best.ids[int64_t{i} * best.k] == blank;
    const auto event = stream.voice.observe(energy, is_blank ? 1 - probability : probability);
    if (event)
      voice_event(slot, event->started, stream.voice_sample + event->frame * samples_per_frame, ready_at);
  }
}

void Engine::Impl::voice_event(int slot, bool started, int64_t sample, Clock::time_point ready_at) {
  if (!streams[static_cast<size_t>(slot)].options.voice_events) return;
  Update& update = next_update(started ? Update::Kind::speech_started : Update::Kind::speech_stopped, slot);
  update.start_sample = update.end_sample = sample;
  update.ready_at = ready_at;
}

bool Engine::Impl::end_segment_by_rule(int slot, Clock::time_point ready_at) {
  Stream& stream = streams[static_cast<size_t>(slot)];
  const StreamHandle decoder = stream.caches->get_decoder();
  const int64_t frames = decoder.frames();
  const int frame_ms = geometry.subsampling * runner.model().spec().fbank.frame_shift_ms;
  const auto tokens = static_cast<int>(decoder.best().size());
  const Endpoint endpoint = find_endpoint(
      stream.options.endpoint, {.segment_ms = frames * frame_ms,
                                .unvoiced_ms = std::min(stream.voice.unvoiced_frames(), frames) * frame_ms,
                                .has_tokens = tokens > 0});
  const int64_t end = stream.segment_sample + frames * samples_per_frame;
  if (endpoint == Endpoint::silence) {
    close_segment(slot, FinalReason::endpoint, ready_at, end);
  } else if (endpoint == Endpoint::length || tokens + config.chunk_size > config.max_segment_tokens) {
    close_segment(slot, FinalReason::length, ready_at, end);
  } else if (endpoint == Endpoint::idle) {
    begin_segment(stream);
  } else {
    return false;
  }
  return true;
}

// Keeps the rows that the next window overlaps and the samples that its frames start from.
void Engine::Impl::drop_consumed(Stream& stream, int feature_frames) {
  const int64_t mel = runner.model().spec().fbank.num_mel_bins;
  const int64_t new_frames = feature_frames - stream.carried_rows;
  stream.audio.drop_until(stream.audio.begin() + new_frames * frame_shift);
  const int kept = feature_frames == geometry.window ? geometry.overlap() : 0;
  float* const rows = stream.features.view().f32();
  std::copy_n(rows + (feature_frames - kept) * mel, kept * mel, rows);
  stream.carried_rows = kept;
}

// One final, then a new segment.
void Engine::Impl::close_segment(int slot, FinalReason reason, Clock::time_point ready_at,
                                 int64_t end_sample) {
  Stream& stream = streams[static_cast<size_t>(slot)];
  const StreamHandle decoder = stream.caches->get_decoder();
  Update& update = next_update(Update::Kind::final, slot);
  update.reason = reason;
  update.ready_at = ready_at;
  const std::span<const CtcToken> tokens = decoder.finalize_stream();
  fill_tokens(update, tokens, stream);
  if (tokens.empty()) update.end_sample = end_sample;
  if (stream.options.words) update.word_count = runner.model().tokens().write_words(tokens, update.words);
  ++stream.segment;
  begin_segment(stream);
}

// The decoder's part of an endpoint: an empty hypothesis; caches, features and clock go on.
void Engine::Impl::begin_segment(Stream& stream) {
  const StreamHandle decoder = stream.caches->get_decoder();
  stream.segment_sample += decoder.frames() * samples_per_frame;
  stream.partial.clear();
  decoder.reset();
  if (config.max_position_frames != 0) restart_positions_if(stream, config.max_position_frames);
}

// Positions enter only through the attention's score, never the cached keys, so the origin may move.
void Engine::Impl::restart_positions_if(Stream& stream, int limit) {
  if (stream.position >= limit) stream.position = runner.attention().cached_frames(stream.caches->id());
}

// Everything before `sample` is forgotten; the sample clock goes on.
void Engine::Impl::reset_segment(Stream& stream, int64_t sample) {
  stream.caches->reset();
  stream.audio.drop_until(sample);
  stream.carried_rows = 0;
  stream.position = 0;
  stream.partial.clear();
  stream.segment_sample = stream.voice_sample = sample;
  stream.voice = VoiceActivity();
}

// Credit for audio that left the buffer, on the stream's last update of this tick or on one of its own.
void Engine::Impl::report_consumed() {
  for (size_t i = update_count; i-- > 0;) {
    Update& update = updates[i];
    Stream& stream = streams[static_cast<size_t>(update.key.slot)];
    if (!stream.open || stream.generation != update.key.generation) continue;
    update.consumed_samples = stream.audio.begin() - stream.reported_sample;
    stream.reported_sample = stream.audio.begin();
  }
  for (int slot = 0; slot < static_cast<int>(streams.size()); ++slot) {
    Stream& stream = streams[static_cast<size_t>(slot)];
    if (!stream.open || stream.audio.begin() == stream.reported_sample) continue;
    if (update_count == updates.size()) return;
    const int64_t consumed = stream.audio.begin() - stream.reported_sample;
    next_update(Update::Kind::consumed, slot).consumed_samples = consumed;
    stream.reported_sample = stream.audio.begin();
  }
}

Update& Engine::Impl::next_update(Update::Kind kind, int slot) {
  Update& update = updates[update_count++];
  const Stream& stream = streams[static_cast<size_t>(slot)];
  update.kind = kind;
  update.key = key_of(slot);
  update.segment = stream.segment;
  update.text.clear();
  update.start_sample = update.end_sample = update.segment_sample = stream.segment_sample;
  update.confidence = 0;
  update.reason = FinalReason::endpoint;
  update.word_count = 0;
  update.consumed_samples = 0;
  update.audio_samples = stream.audio.end();
  update.ready_at = {};
  return update;
}

void Engine::Impl::fill_tokens(Update& update, std::span<const CtcToken> tokens, const Stream& stream) {
  runner.model().tokens().write_text(tokens, update.text);
  if (tokens.empty()) return;
  update.start_sample = stream.segment_sample + int64_t{tokens.front().first_frame} * samples_per_frame;
  update.end_sample = stream.segment_sample + (int64_t{tokens.back().last_frame} + 1) * samples_per_frame;
  float sum = 0;
  for (const CtcToken& token : tokens) sum += token.log_prob;
  update.confidence = std::exp(sum / static_cast<float>(tokens.size()));
}

Engine::Engine(std::shared_ptr<const ConformerCtc> model, std::unique_ptr<Ops> ops,
               const EngineConfig& config)
    : impl_(std::make_unique<Impl>(std::move(model), std::move(ops), config)) {}
Engine::~Engine() = default;

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
  stream.audio.restart();
  stream.commands.clear();
  stream.carried_rows = 0;
  stream.position = 0;
  stream.segment = 0;
  stream.segment_sample = 0;
  stream.reported_sample = 0;
  stream.partial.clear();
  stream.voice = VoiceActivity();
  stream.voice_sample = 0;
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

std::span<const Update> Engine::tick() {
  Impl& e = *impl_;
  e.update_count = 0;
  e.collect_candidates();
  e.picked = e.scheduler.pick(e.candidates, e.lane_limit.lanes());
  if (!e.picked.empty()) {
    const Clock::time_point start = Clock::now();
    const std::chrono::nanoseconds cost_before = thread_time();
    e.make_room();
    e.compute_features();
    const Clock::time_point features_done = Clock::now();
    const EncoderOutput out = e.forward();
    const Clock::time_point forward_done = Clock::now();
    e.decode(out);
    const Clock::time_point done = Clock::now();
    const auto width = static_cast<int>(e.picked.size());
    e.lane_limit.record(width, thread_time() - cost_before);
    ++e.stats.ticks;
    e.stats.lanes += width;
    e.stats.feature_seconds += seconds(features_done - start);
    e.stats.forward_seconds += seconds(forward_done - features_done);
    e.stats.decode_seconds += seconds(done - forward_done);
  }
  e.run_commands();
  e.report_consumed();
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
const EngineStats& Engine::stats() const { return impl_->stats; }
const EngineConfig& Engine::config() const { return impl_->config; }
const ConformerCtc& Engine::model() const { return impl_->runner.model(); }

}  // namespace tutti
