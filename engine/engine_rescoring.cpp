#include <algorithm>
#include <string>

#include "config/result.hpp"
#include "engine/engine_impl.hpp"

namespace tutti {
namespace {

RescoringWeights rescoring_weights(const EngineConfig& config, const ConformerCtc& model) {
  const DecoderSpec& stated = *model.spec().decoder;
  if (config.reverse_weight > 0 && model.decoders()->right == nullptr) {
    throw SetupError("engine.reverse_weight = " + std::to_string(config.reverse_weight) + ": model " +
                     model.name() + " has no decoder from right to left; expected 0 or -1");
  }
  return {.ctc = config.ctc_weight < 0 ? stated.ctc_weight : config.ctc_weight,
          .reverse = config.reverse_weight < 0 ? stated.reverse_weight : config.reverse_weight};
}

}  // namespace

void Engine::Impl::prepare_rescoring() {
  if (config.max_rescored_frames < config.chunk_size) {
    throw SetupError("engine.max_rescored_frames = " + std::to_string(config.max_rescored_frames) +
                     ": expected at least engine.chunk_size = " + std::to_string(config.chunk_size));
  }
  const ConformerCtc& model = runner.model();
  if (model.decoders() == nullptr) {
    throw SetupError("engine.decoder = 'rescore': model " + model.name() +
                     " was loaded without attention decoders");
  }
  rescorer.emplace(model, runner.ops(),
                   Rescorer::Limits{.max_frames = config.max_rescored_frames,
                                    .max_tokens = required_hypothesis_tokens(config),
                                    .max_hypotheses = config.beam,
                                    .kv_format = parse_decoder_kv_format(config.decoder_kv)},
                   rescoring_weights(config, model));
  for (Stream& stream : streams) {
    stream.encoder_out =
        runner.ops().allocate(DType::f32, {config.max_rescored_frames, model.spec().output_size});
  }
  for (int i = 0; i < config.max_batch_size + 1; ++i) rescored.push_back(rescorer->make_segment());
  pending.reserve(rescored.size());
}

void Engine::Impl::keep_frames(Stream& stream, const TensorView& encoder_out) {
  runner.ops().copy(encoder_out, stream.encoder_out.view().slice(stream.kept_frames, encoder_out.rows()));
  stream.kept_frames += static_cast<int>(encoder_out.rows());
}

// No room for the frames of one more chunk.
bool Engine::Impl::frames_are_full(const Stream& stream) const {
  return rescorer && stream.kept_frames + config.chunk_size > config.max_rescored_frames;
}

// A tick rescores the segments that ended by themselves, one a lane at most, one that a command closes, so
// that nobody waits for ever, and as many more of these as its budget allows.
bool Engine::Impl::must_wait_for_rescoring(const Stream& stream) const {
  const int affordable = rescore_limit.lanes(std::chrono::milliseconds(config.max_tick_ms));
  return stream.kept_frames > 0 && pending.size() > finals_by_rule &&
         static_cast<int>(pending.size()) >= affordable &&
         stream.commands.front()->kind != Command::Kind::reset;
}

// The search forgets its hypotheses when the segment ends; their frames stay until the next forward.
void Engine::Impl::postpone_final(int slot, size_t update, int64_t end_sample) {
  const Stream& stream = streams[static_cast<size_t>(slot)];
  RescoredSegment& segment = rescored[pending.size()];
  segment.encoder_out = stream.encoder_out.view().slice(0, stream.kept_frames);
  segment.count = stream.caches->get_decoder().write_nbest(segment.hypotheses);
  pending.push_back({.slot = slot, .update = update, .end_sample = end_sample});
}

void Engine::Impl::rescore_finals() {
  if (pending.empty()) return;
  const Clock::time_point start = Clock::now();
  const std::chrono::nanoseconds cost_before = thread_time();
  rescorer->run(std::span(rescored).first(pending.size()));
  rescore_limit.record(static_cast<int>(pending.size()), thread_time() - cost_before);
  for (size_t i = 0; i < pending.size(); ++i) {
    const RescoredSegment& segment = rescored[i];
    if (segment.failed) continue;
    Update& update = updates[pending[i].update];
    const bool words = streams[static_cast<size_t>(pending[i].slot)].options.words;
    fill_final(update, segment.hypotheses[segment.best].tokens, words, pending[i].end_sample);
    update.confidence = segment.confidence;
  }
  // From the last, so that what is dropped moves no final that is still to be looked at.
  for (size_t i = pending.size(); i-- > 0;) {
    if (rescored[i].failed) fail_rescoring(pending[i]);
  }
  stats.rescored_segments += static_cast<int64_t>(pending.size());
  stats.rescore_seconds += std::chrono::duration<double>(Clock::now() - start).count();
  pending.clear();
}

void Engine::Impl::fail_rescoring(const PendingFinal& final) {
  Update& update = updates[final.update];
  update.kind = Update::Kind::error;
  update.text = "rescoring of this stream gave a value that is not finite; the stream has ended";
  drop_later_updates(final.update);
  ++stats.failed_streams;
  const Stream& stream = streams[static_cast<size_t>(final.slot)];
  if (stream.open && stream.generation == update.key.generation) close(final.slot);
}

// Whatever the update's stream was to say after it.
void Engine::Impl::drop_later_updates(size_t index) {
  size_t kept = index + 1;
  for (size_t i = kept; i < update_count; ++i) {
    if (updates[i].key == updates[index].key) continue;
    if (i != kept) std::swap(updates[i], updates[kept]);
    ++kept;
  }
  update_count = kept;
}

}  // namespace tutti
