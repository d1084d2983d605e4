#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/engine.hpp"

namespace tutti {

/// Speech of several speakers, to be heard again and again.
using Waveforms = std::vector<std::vector<float>>;
[[nodiscard]] Waveforms make_waveforms(int sample_rate, int speakers);

/// An engine with a full batch of streams that always have the next chunk ready, and whose state is copied
/// after every so many chunks; 0 is never. Streams that share a waveform are at different places in it.
class Treadmill {
 public:
  /// Of snapshots.
  struct Snapshots {
    int64_t taken = 0;
    int64_t bytes = 0;
    int64_t postponed = 0;
  };

  /// `engine` and `waveforms` outlive it.
  Treadmill(Engine& engine, int streams, int snapshot_chunks, const Waveforms& waveforms);

  /// One chunk of every stream; returns the tick's milliseconds.
  double tick();
  /// After so many every history is full.
  [[nodiscard]] static int warm_up_ticks(const Engine& engine) { return engine.config().num_left_chunks + 2; }

  [[nodiscard]] const Snapshots& snapshots() const { return snapshots_; }

 private:
  struct Fed {
    StreamKey key;
    const std::vector<float>* audio;
    size_t position;
    int chunks;  // since its last snapshot
  };
  void take_snapshots();
  void feed(int64_t samples);

  Engine& engine_;
  int rate_;
  int snapshot_chunks_;
  std::vector<Fed> streams_;
  Snapshots snapshots_;
};

}  // namespace tutti
