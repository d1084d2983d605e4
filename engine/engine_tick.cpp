#include <algorithm>
#include <array>
#include <cmath>

#include "engine/engine_impl.hpp"

namespace tutti {

namespace {

// Two tokens of one hypothesis look the same to who reads its text.
bool same_token(const CtcToken& a, const CtcToken& b) { return a.id == b.id; }

}  // namespace

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
  finals_by_rule = pending.size();
  for (int slot = 0; slot < static_cast<int>(streams.size()); ++slot) {
    while (streams[static_cast<size_t>(slot)].open && run_command(slot)) {
    }
  }
}

bool Engine::Impl::run_command(int slot) {
  Stream& stream = streams[static_cast<size_t>(slot)];
  if (stream.commands.front() == nullptr || ready_chunk(stream).has_value()) return false;
  // Room for what this may say; what does not fit is said next tick.
  if (update_count + 3 > updates.size() || must_wait_for_rescoring(stream)) return false;
  const Command command = *stream.commands.front();
  stream.commands.pop();
  ++stream.commands_done;
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

// What ticks have cost whoever computes them so far. A thread that waits for a device computes nothing.
std::chrono::nanoseconds Engine::Impl::work_time() const {
  if (!runner.ops().is_queued()) return thread_time();
  const std::chrono::duration<double> device(runner.ops().device_use().seconds);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(device);
}

// A live chunk that becomes ready during a tick waits for its end, so beside live streams a tick of uploads
// alone is a short one, and a rest follows it. A tick of a GPU is not much longer for its lanes.
TickLanes Engine::Impl::tick_lanes() const {
  constexpr double share_beside_live = 0.05;
  const std::chrono::duration<double, std::milli> budget(config.max_tick_ms);
  const int most = runner.ops().is_queued() ? config.max_batch_size : lane_limit.lanes(budget);
  if (live_streams == 0) return {.most = most, .background = most};
  const bool rests = background_pace.rest(Clock::now()) > Clock::duration::zero();
  return {.most = most, .background = rests ? 0 : lane_limit.lanes(share_beside_live * budget)};
}

// Whether a tick now does something for the stream though uploads rest.
bool Engine::Impl::is_ready_in_rest(const Stream& stream) const {
  if (!stream.open) return false;
  const bool is_live = stream.options.stream_class == StreamClass::live;
  const bool has_chunk = ready_chunk(stream).has_value();
  return has_chunk ? is_live : stream.commands.front() != nullptr;
}

// A stream with unlimited history that has filled its share ends its segment before it is dispatched. One
// that recycles never has: its cache drops the oldest block by itself.
void Engine::Impl::make_room() {
  for (const Candidate& candidate : picked) {
    Stream& stream = streams[static_cast<size_t>(candidate.slot)];
    if (!stream.caches->at_capacity()) continue;
    const int64_t end = stream.segment_sample + stream.caches->get_decoder().frames() * samples_per_frame;
    close_segment(candidate.slot, FinalReason::length, stream.audio.arrival_of(end), end);
    stream.caches->reset();
    stream.position = 0;
  }
  rescore_finals();  // the next forward takes the memory of their frames
  std::erase_if(picked, [this](const Candidate& c) { return !streams[static_cast<size_t>(c.slot)].open; });
}

void Engine::Impl::compute_features() {
  jobs.clear();
  chunks.clear();
  const int64_t mel = runner.model().spec().fbank.num_mel_bins;
  for (const Candidate& candidate : picked) {
    Stream& stream = streams[static_cast<size_t>(candidate.slot)];
    chunks.push_back(*ready_chunk(stream));
    timings.push_back({std::max(stream.audio.arrival_of(chunks.back().end_sample), stream.chunk_done),
                       candidate.stream_class, key_of(candidate.slot)});
    jobs.push_back({.samples = stream.audio.at(stream.audio.begin()),
                    .frames = chunks.back().feature_frames - stream.carried_rows,
                    .out = stream.features.f32() + stream.carried_rows * mel});
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
                     .features = stream.features.f32(),
                     .feature_frames = chunks[i].feature_frames,
                     .first_position = stream.position});
  }
  return runner.forward(lanes);
}

// The one time in a tick that the host waits for the device.
void Engine::Impl::read_results(const EncoderOutput& out) {
  energy_rows.clear();
  for (size_t lane = 0; lane < picked.size(); ++lane) {
    const int32_t window = picked[lane].slot * geometry.window;
    for (int i = 0; i < out.layout.rows(static_cast<int>(lane)); ++i) {
      energy_rows.push_back(window + i * geometry.subsampling);
    }
  }
  const TensorView means = energies.view().slice(0, out.layout.rows());
  runner.ops().mean_of_rows(features, energy_rows, geometry.subsampling, means);
  const auto into = [](const TensorView& from, auto& to) {
    to.resize(static_cast<size_t>(from.shape.elements()));
    return Reading{from, reinterpret_cast<std::byte*>(to.data())};
  };
  const std::array readings{into(out.top_ids, results.top_ids),
                            into(out.top_log_probs, results.top_log_probs), into(means, results.energies)};
  runner.ops().read(readings);
}

void Engine::Impl::decode(const EncoderOutput& out) {
  read_results(out);
  overlap_from.clear();
  overlap_to.clear();
  for (size_t lane = 0; lane < picked.size(); ++lane) decode_lane(lane, out);
  carry_overlaps();
}

void Engine::Impl::decode_lane(size_t lane, const EncoderOutput& out) {
  const int slot = picked[lane].slot;
  Stream& stream = streams[static_cast<size_t>(slot)];
  const ReadyChunk& chunk = chunks[lane];
  const Clock::time_point ready_at = stream.audio.arrival_of(chunk.end_sample);
  const int64_t row = out.layout.row_begin[lane];
  const int frames = out.layout.rows(static_cast<int>(lane));
  const auto k = static_cast<int>(out.top_ids.cols());
  const CtcFrames best{.frames = frames,
                       .k = k,
                       .ids = results.top_ids.data() + row * k,
                       .log_probs = results.top_log_probs.data() + row * k};
  for (int i = 0; i < frames * best.k; ++i) {
    if (std::isfinite(best.log_probs[i])) continue;
    Update& update = next_update(Update::Kind::error, slot);
    update.text = "recognition of this stream gave a value that is not finite; the stream has ended";
    update.ready_at = ready_at;
    ++stats.failed_streams;
    close(slot);
    return;
  }
  if (rescorer) keep_frames(stream, out.encoder_out.slice(row, frames));
  const StreamHandle decoder = stream.caches->get_decoder();
  decoder.decode_chunk(best);
  observe_voice(slot, best, results.energies.data() + row, ready_at);
  stream.position += frames;
  drop_consumed(slot, chunk.feature_frames);

  const std::span<const CtcToken> tokens = decoder.best();
  // A partial that its final follows at once would say nothing new.
  const bool final_follows = stream.commands.front() != nullptr && !ready_chunk(stream).has_value();
  if (final_follows || end_segment_by_rule(slot, ready_at)) return;
  if (stream.options.interim && !std::ranges::equal(tokens, stream.partial, same_token)) {
    stream.partial.assign(tokens.begin(), tokens.end());
    Update& update = next_update(Update::Kind::partial, slot);
    fill_tokens(update, tokens);
    update.ready_at = ready_at;
  }
}

void Engine::Impl::observe_voice(int slot, const CtcFrames& best, const float* energies_of_rows,
                                 Clock::time_point ready_at) {
  Stream& stream = streams[static_cast<size_t>(slot)];
  const int blank = runner.model().spec().blank_id;
  for (int i = 0; i < best.frames; ++i) {
    const float probability = std::exp(best.log_probs[int64_t{i} * best.k]);
    const bool is_blank = best.ids[int64_t{i} * best.k] == blank;
    const auto event = stream.voice.observe(energies_of_rows[i], is_blank ? 1 - probability : probability);
    if (event)
      voice_event(slot, event->started, stream.voice_sample + event->frame * samples_per_frame, ready_at);
  }
}

// Keeps the rows that the next window overlaps and the samples that its frames start from.
void Engine::Impl::drop_consumed(int slot, int feature_frames) {
  Stream& stream = streams[static_cast<size_t>(slot)];
  const int64_t new_frames = feature_frames - stream.carried_rows;
  stream.audio.drop_until(stream.audio.begin() + new_frames * frame_shift);
  const int kept = feature_frames == geometry.window ? geometry.overlap() : 0;
  for (int i = 0; i < kept; ++i) {
    overlap_from.push_back(slot * geometry.window + feature_frames - kept + i);
    overlap_to.push_back(slot * geometry.window + i);
  }
  stream.carried_rows = kept;
}

// The rows of all streams that drop_consumed has noted, together.
void Engine::Impl::carry_overlaps() {
  const TensorView rows = overlaps.view().slice(0, static_cast<int64_t>(overlap_from.size()));
  runner.ops().index_select(features, 0, overlap_from, rows);
  runner.ops().index_copy(rows, 0, overlap_to, features);
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

}  // namespace tutti
