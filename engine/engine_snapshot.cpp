#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/engine_impl.hpp"

namespace tutti {
namespace {

/// So many streams of the longest history may be on their way to host memory, but not more bytes.
constexpr int64_t outbox_streams = 16;
constexpr int64_t most_outbox_bytes = int64_t{64} << 20;

Shape convolution_shape(const CacheConfig& cache) {
  return {cache.num_layers, 1, cache.cnn_cache_frames(), cache.hidden_dim};
}

/// The part of a past that is at the start of `parcel`, which moves behind it.
template <class T>
std::vector<T> take(std::span<const std::byte>& parcel, int64_t count) {
  std::vector<T> part(static_cast<size_t>(count));
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(part));
  std::ranges::copy(parcel.first(bytes.size()), bytes.data());
  parcel = parcel.subspan(bytes.size());
  return part;
}

void fill(StreamSnapshot::Past& past, const PastSizes& sizes, std::span<const std::byte> parcel) {
  past.keys_values = take<float>(parcel, sizes.keys_values);
  past.convolution = take<float>(parcel, sizes.convolution);
  past.features = take<float>(parcel, sizes.features);
  past.rescorable_frames = take<float>(parcel, sizes.rescorable_frames);
  if (sizes.decoder > 0) past.decoder = take<std::byte>(parcel, sizes.decoder);
}

/// The first of `rows`, whole ones.
Writing first_rows(std::span<const float> values, const TensorView& rows) {
  return {reinterpret_cast<const std::byte*>(values.data()), rows.slice(0, std::ssize(values) / rows.cols())};
}

}  // namespace

// What leaves the device is gathered by it between two ticks, so that neither the copy keeps the next tick
// waiting nor the next tick writes to what is copied.
std::unique_ptr<Outbox> Engine::Impl::make_outbox() {
  const int64_t mel = runner.model().spec().fbank.num_mel_bins;
  const PastSizes longest{
      .keys_values = runner.pool().block_floats(runner.attention().table_width()),
      .convolution = convolution_shape(runner.cache_config()).elements(),
      .features = geometry.window * mel,
      .rescorable_frames =
          rescorer ? int64_t{config.max_rescored_frames} * runner.model().spec().output_size : 0,
      .decoder = 0};
  const int64_t wanted = outbox_streams * longest.bytes();
  return runner.ops().make_outbox(std::min(wanted, most_outbox_bytes));
}

PastSizes Engine::Impl::past_sizes(const Stream& stream) const {
  const std::span<const int32_t> blocks = runner.attention().block_table(stream.caches->id());
  return {
      .keys_values = runner.pool().block_floats(std::ssize(blocks)),
      .convolution = convolution_shape(runner.cache_config()).elements(),
      .features = stream.carried_rows * stream.features.cols(),
      .rescorable_frames = stream.kept_frames > 0 ? stream.kept_frames * stream.encoder_out.view().cols() : 0,
      .decoder = stream.caches->get_decoder().device_bytes()};
}

StreamSnapshot Engine::Impl::without_device_past(const Stream& stream, const PastSizes& sizes) const {
  const StreamHandle decoder = stream.caches->get_decoder();
  return {
      .sample = stream.audio.begin(),
      .commands = stream.commands_done,
      .events = stream.events,
      .segment = stream.segment,
      .past = StreamSnapshot::Past{.model = runner.shared_model(),
                                   .history = runner.attention().history(stream.caches->id()),
                                   .keys_values = {},
                                   .convolution = {},
                                   .features = {},
                                   .decoder = sizes.decoder > 0 ? std::vector<std::byte>() : decoder.save(),
                                   .partial = stream.partial,
                                   .rescorable_frames = {},
                                   .voice = stream.voice,
                                   .voice_sample = stream.voice_sample,
                                   .segment_sample = stream.segment_sample,
                                   .position = stream.position}};
}

void Engine::Impl::gather_past(const Stream& stream, const PastSizes& sizes, std::byte* to) {
  const auto next = [&to](const Shape& shape) {
    const TensorView view{to, DType::f32, shape};
    to += view.bytes();
    return view;
  };
  runner.pool().gather(runner.attention().block_table(stream.caches->id()), next({sizes.keys_values}));
  runner.cnn().read(stream.caches->slot(), next(convolution_shape(runner.cache_config())));
  const auto copy_first = [&](const TensorView& rows, int64_t floats) {
    if (floats == 0) return;
    const TensorView first = rows.slice(0, floats / rows.cols());
    runner.ops().copy(first, next(first.shape));
  };
  copy_first(stream.features, sizes.features);
  copy_first(stream.encoder_out, sizes.rescorable_frames);
  if (sizes.decoder > 0) stream.caches->get_decoder().gather(to);
}

StreamSnapshot Engine::Impl::whole_snapshot(const Stream& stream) {
  const PastSizes sizes = past_sizes(stream);
  StreamSnapshot snapshot = without_device_past(stream, sizes);
  const Tensor gathered = runner.ops().allocate(DType::i8, {sizes.bytes()});
  gather_past(stream, sizes, gathered.view().data);
  std::vector<std::byte> parcel(static_cast<size_t>(sizes.bytes()));
  const Reading reading{gathered, parcel.data()};
  runner.ops().read({&reading, 1});
  fill(*snapshot.past, sizes, parcel);
  return snapshot;
}

std::optional<StreamSnapshot> Engine::snapshot(StreamKey key) {
  const Stream* const stream = impl_->find(key);
  if (stream == nullptr) return std::nullopt;
  return impl_->whole_snapshot(*stream);
}

bool Engine::Impl::send_snapshot(StreamKey key, const Stream& stream) {
  const PastSizes sizes = past_sizes(stream);
  if (!outbox || sizes.bytes() > outbox->capacity()) {
    // Not before those that were begun earlier, of which one may be the same stream's.
    if (stats.snapshots_under_way > 0) return false;
    snapshots.push_back({{key, whole_snapshot(stream)}, {}});
    return true;
  }
  std::byte* const place = outbox->place(sizes.bytes());
  if (place == nullptr) return false;
  gather_past(stream, sizes, place);
  outbox->send();
  snapshots.push_back({{key, without_device_past(stream, sizes)}, sizes});
  ++stats.snapshots_under_way;
  stats.snapshot_bytes_under_way += sizes.bytes();
  return true;
}

std::optional<int64_t> Engine::begin_snapshot(StreamKey key) {
  const Stream* const stream = impl_->find(key);
  if (stream == nullptr || !impl_->send_snapshot(key, *stream)) return std::nullopt;
  return stream->commands_done;
}

std::optional<Engine::TakenSnapshot> Engine::next_snapshot() {
  Impl& e = *impl_;
  if (e.snapshots.empty()) return std::nullopt;
  SnapshotUnderWay& oldest = e.snapshots.front();
  if (oldest.sizes.bytes() > 0) {
    const std::span<const std::byte> parcel = e.outbox->arrived();
    if (parcel.empty()) return std::nullopt;
    fill(*oldest.taken.snapshot.past, oldest.sizes, parcel);
    e.outbox->drop();
    --e.stats.snapshots_under_way;
    e.stats.snapshot_bytes_under_way -= oldest.sizes.bytes();
  }
  TakenSnapshot taken = std::move(oldest.taken);
  e.snapshots.pop_front();
  return taken;
}

/// Why the past cannot be a stream's of this engine; empty when it can.
std::string Engine::Impl::misfit(const StreamSnapshot::Past& past) const {
  if (!past.model || !past.model->is_same_model(runner.model())) return "it is of another model";
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
  std::vector<Writing> writings;
  const auto* convolution = reinterpret_cast<const std::byte*>(past.convolution.data());
  for (int layer = 0; layer < runner.cache_config().num_layers; ++layer) {
    writings.push_back({convolution, runner.cnn().layer(layer)[stream.caches->slot()]});
    convolution += writings.back().to.bytes();
  }
  writings.push_back(first_rows(past.features, stream.features));
  if (rescorer) writings.push_back(first_rows(past.rescorable_frames, stream.encoder_out));
  runner.ops().write(writings);
  stream.caches->get_decoder().load(past.decoder);
  stream.carried_rows = static_cast<int>(std::ssize(past.features) / stream.features.cols());
  stream.partial.assign(past.partial.begin(), past.partial.end());
  stream.kept_frames =
      rescorer ? static_cast<int>(std::ssize(past.rescorable_frames) / stream.encoder_out.view().cols()) : 0;
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
