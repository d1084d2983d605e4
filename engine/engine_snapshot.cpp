#include <algorithm>
#include <stdexcept>
#include <string>

#include "engine/engine_impl.hpp"

namespace tutti {
namespace {

Shape convolution_shape(const CacheConfig& cache) {
  return {cache.num_layers, 1, cache.cnn_cache_frames(), cache.hidden_dim};
}

std::vector<float> to_host(Ops& ops, const TensorView& device) {
  std::vector<float> host(static_cast<size_t>(device.shape.elements()));
  if (!host.empty()) ops.download(device, host);
  return host;
}

/// Copies whole rows to the first of `rows`; returns how many.
int to_device(Ops& ops, std::span<const float> values, const TensorView& rows) {
  const int64_t count = std::ssize(values) / rows.cols();
  if (count > 0) {
    const Tensor uploaded = ops.upload(host_tensor({count, rows.cols()}, values));
    ops.copy(uploaded, rows.slice(0, count));
  }
  return static_cast<int>(count);
}

}  // namespace

StreamSnapshot::Past Engine::Impl::past_of(const Stream& stream) {
  const StreamId id = stream.caches->id();
  const std::span<const int32_t> blocks = runner.attention().block_table(id);
  StreamSnapshot::Past past{
      .model = runner.shared_model(),
      .history = runner.attention().history(id),
      .keys_values = std::vector<float>(static_cast<size_t>(runner.pool().block_floats(std::ssize(blocks)))),
      .convolution = {},
      .features = to_host(runner.ops(), stream.features.slice(0, stream.carried_rows)),
      .decoder = stream.caches->get_decoder().save(),
      .partial = stream.partial,
      .rescorable_frames = {},
      .voice = stream.voice,
      .voice_sample = stream.voice_sample,
      .segment_sample = stream.segment_sample,
      .position = stream.position};
  runner.pool().read(blocks, past.keys_values);
  const Tensor convolution = runner.ops().allocate(DType::f32, convolution_shape(runner.cache_config()));
  runner.cnn().read(stream.caches->slot(), convolution);
  past.convolution = to_host(runner.ops(), convolution);
  if (stream.kept_frames > 0) {
    past.rescorable_frames = to_host(runner.ops(), stream.encoder_out.view().slice(0, stream.kept_frames));
  }
  return past;
}

std::optional<StreamSnapshot> Engine::snapshot(StreamKey key) {
  const Stream* const stream = impl_->find(key);
  if (stream == nullptr) return std::nullopt;
  return StreamSnapshot{.sample = stream->audio.begin(),
                        .commands = stream->commands_done,
                        .events = stream->events,
                        .segment = stream->segment,
                        .past = impl_->past_of(*stream)};
}

/// Why the past cannot be a stream's of this engine; empty when it can.
std::string Engine::Impl::misfit(const StreamSnapshot::Past& past) const {
  if (past.model != runner.shared_model()) return "it is of another model";
  const int64_t mel = runner.model().spec().fbank.num_mel_bins;
  const auto convolution = convolution_shape(runner.cache_config()).elements();
  const auto frames = std::ssize(past.rescorable_frames) / runner.model().spec().output_size;
  if (std::ssize(past.convolution) != convolution || std::ssize(past.features) > geometry.window * mel ||
      frames > (rescorer ? config.max_rescored_frames : 0)) {
    return "it is of another configuration";
  }
  return {};
}

void Engine::Impl::restore_past(Stream& stream, const StreamSnapshot::Past& past) {
  const StreamId id = stream.caches->id();
  runner.attention().restore_history(id, past.history);
  runner.pool().write(runner.attention().block_table(id), past.keys_values);
  const Tensor convolution =
      runner.ops().upload(host_tensor(convolution_shape(runner.cache_config()), past.convolution));
  runner.cnn().update(stream.caches->slot(), convolution);
  stream.caches->get_decoder().load(past.decoder);
  stream.carried_rows = to_device(runner.ops(), past.features, stream.features);
  stream.partial.assign(past.partial.begin(), past.partial.end());
  stream.kept_frames = rescorer ? to_device(runner.ops(), past.rescorable_frames, stream.encoder_out) : 0;
  stream.voice = past.voice;
  stream.voice_sample = past.voice_sample;
  stream.segment_sample = past.segment_sample;
  stream.position = past.position;
}

Result<void> Engine::restore(StreamKey key, const StreamSnapshot& snapshot) {
  Stream* const stream = impl_->find(key);
  if (stream == nullptr) return {};
  if (stream->audio.end() != 0 || stream->commands.front() != nullptr || stream->commands_done != 0) {
    return fail("bad_snapshot", "a stream that has begun cannot become another one");
  }
  if (snapshot.past) {
    if (const std::string why = impl_->misfit(*snapshot.past); !why.empty()) {
      return fail("bad_snapshot", "the snapshot does not fit this engine: " + why);
    }
    try {
      impl_->restore_past(*stream, *snapshot.past);
    } catch (const std::invalid_argument& error) {
      stream->caches->reset();
      return fail("bad_snapshot", std::string("the snapshot does not fit this engine: ") + error.what());
    }
  } else {
    stream->segment_sample = stream->voice_sample = snapshot.sample;
  }
  stream->audio.restart(snapshot.sample);
  stream->reported_sample = snapshot.sample;
  stream->commands_done = snapshot.commands;
  stream->events = snapshot.events;
  stream->segment = snapshot.segment;
  return {};
}

}  // namespace tutti
