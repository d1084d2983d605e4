#pragma once

#include <string>

namespace tutti {

/// What an owner recognizes with: the same for all streams of all owners of one model.
struct RecognizerInfo {
  std::string model;
  /// Owners of one identity go on with each other's streams. With one model it may be empty.
  std::string model_identity{};
  int sample_rate = 16000;
  int chunk_ms = 640;
  int samples_per_frame = 640;  ///< per encoder frame
  int window_samples = 10960;   ///< with so many waiting there is a chunk to recognize
  int overlap_samples = 480;    ///< less of them after the first chunk
  int max_streams = 0;          ///< of this owner
  int snapshot_samples = 0;     ///< consumed between two snapshots of a stream; 0 = there are none
  int max_buffered_ms = 0;      ///< audio a stream may have waiting in the engine

  bool operator==(const RecognizerInfo&) const = default;
};

}  // namespace tutti
