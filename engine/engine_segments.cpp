#include <algorithm>
#include <cmath>

#include "engine/engine_impl.hpp"

namespace tutti {

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
  } else if (endpoint == Endpoint::length || tokens + config.chunk_size > config.max_segment_tokens ||
             (tokens > 0 && frames_are_full(stream))) {
    close_segment(slot, FinalReason::length, ready_at, end);
  } else if (endpoint == Endpoint::idle || frames_are_full(stream)) {
    begin_segment(stream);
  } else {
    return false;
  }
  return true;
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
  if (stream.kept_frames > 0) {
    postpone_final(slot, update_count - 1, end_sample);
  } else {
    fill_final(update, tokens, stream.options.words, end_sample);
  }
  ++stream.segment;
  begin_segment(stream);
}

// The decoder's part of an endpoint: an empty hypothesis; caches, features and clock go on.
void Engine::Impl::begin_segment(Stream& stream) {
  const StreamHandle decoder = stream.caches->get_decoder();
  stream.segment_sample += decoder.frames() * samples_per_frame;
  stream.partial.clear();
  stream.kept_frames = 0;
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
  stream.kept_frames = 0;
  stream.segment_sample = stream.voice_sample = sample;
  stream.voice = VoiceActivity();
}

void Engine::Impl::voice_event(int slot, bool started, int64_t sample, Clock::time_point ready_at) {
  if (!streams[static_cast<size_t>(slot)].options.voice_events) return;
  Update& update = next_update(started ? Update::Kind::speech_started : Update::Kind::speech_stopped, slot);
  update.start_sample = update.end_sample = sample;
  update.ready_at = ready_at;
}

Update& Engine::Impl::next_update(Update::Kind kind, int slot) {
  Update& update = updates[update_count++];
  Stream& stream = streams[static_cast<size_t>(slot)];
  update.kind = kind;
  update.key = key_of(slot);
  update.segment = stream.segment;
  update.event = stream.events;
  if (is_lasting(kind)) ++stream.events;
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

void Engine::Impl::fill_tokens(Update& update, std::span<const CtcToken> tokens) {
  runner.model().tokens().write_text(tokens, update.text);
  if (tokens.empty()) return;
  update.start_sample = update.segment_sample + int64_t{tokens.front().first_frame} * samples_per_frame;
  update.end_sample = update.segment_sample + (int64_t{tokens.back().last_frame} + 1) * samples_per_frame;
  float sum = 0;
  for (const CtcToken& token : tokens) sum += token.log_prob;
  update.confidence = std::exp(sum / static_cast<float>(tokens.size()));
}

void Engine::Impl::fill_final(Update& update, std::span<const CtcToken> tokens, bool words,
                              int64_t end_sample) {
  fill_tokens(update, tokens);
  if (tokens.empty()) update.end_sample = end_sample;
  if (words) update.word_count = runner.model().tokens().write_words(tokens, update.words);
}

}  // namespace tutti
