#include "app/treadmill.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <stdexcept>

#include "app/synthetic_model.hpp"
#include "config/result.hpp"

namespace tutti {
namespace {

constexpr int loop_seconds = 20;

}  // namespace

Waveforms make_waveforms(int sample_rate, int speakers) {
  Waveforms waveforms;
  for (int i = 0; i < speakers; ++i) {
    waveforms.push_back(
        pseudo_speech(sample_rate, int64_t{loop_seconds} * sample_rate, static_cast<uint32_t>(i)));
  }
  return waveforms;
}

Treadmill::Treadmill(Engine& engine, int streams, int snapshot_chunks, const Waveforms& waveforms)
    : engine_(engine), rate_(engine.sample_rate()), snapshot_chunks_(snapshot_chunks) {
  // Without an end there would be nothing to rescore.
  const int segment_ms = engine.config().decoder == "rescore" ? 10000 : 0;
  for (int i = 0; i < streams; ++i) {
    const auto key = engine.admit({.endpoint = {0, 0, segment_ms}});
    if (!key) throw SetupError(key.error().message);
    const auto turn = static_cast<size_t>(i);
    const std::vector<float>& audio = waveforms[turn % waveforms.size()];
    const size_t begin = turn / waveforms.size() * static_cast<size_t>(rate_) / 2 % audio.size();
    streams_.push_back({*key, &audio, begin, i});
  }
  // A window needs more than its stride; from here on a chunk of audio completes one.
  feed(rate_ / 20);
}

double Treadmill::tick() {
  feed(int64_t{engine_.chunk_ms()} * rate_ / 1000);
  const auto start = Clock::now();
  const int64_t lanes = engine_.stats().lanes;
  (void)engine_.tick();
  if (snapshot_chunks_ > 0) take_snapshots();
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  if (engine_.stats().lanes - lanes != static_cast<int64_t>(streams_.size())) {
    throw std::logic_error("a tick did not run every stream");
  }
  if (engine_.stats().failed_streams > 0) throw std::logic_error("a stream ended by an error");
  return ms;
}

// As an owner does it. Streams begin their turns at different times.
void Treadmill::take_snapshots() {
  for (Fed& stream : streams_) {
    if (++stream.chunks < snapshot_chunks_) continue;
    if (engine_.begin_snapshot(stream.key)) {
      stream.chunks = 0;
    } else {
      ++snapshots_.postponed;
    }
  }
  while (const auto taken = engine_.next_snapshot()) {
    const StreamSnapshot::Past& past = *taken->snapshot.past;
    ++snapshots_.taken;
    for (const auto* part : {&past.keys_values, &past.convolution, &past.features, &past.rescorable_frames}) {
      snapshots_.bytes += static_cast<int64_t>(part->size() * sizeof(float));
    }
    snapshots_.bytes += std::ssize(past.decoder);
  }
}

void Treadmill::feed(int64_t samples) {
  for (Fed& stream : streams_) {
    for (auto left = static_cast<size_t>(samples); left > 0;) {
      const size_t count = std::min(left, stream.audio->size() - stream.position);
      const auto fed = engine_.feed(stream.key, std::span(*stream.audio).subspan(stream.position, count));
      if (!fed) throw std::logic_error(fed.error().message);
      stream.position = (stream.position + count) % stream.audio->size();
      left -= count;
    }
  }
}

}  // namespace tutti
