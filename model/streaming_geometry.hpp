#pragma once

namespace tutti {

/// How a model consumes feature frames. The engine assumes nothing of it.
struct StreamingGeometry {
  int window = 0;       ///< feature frames of a full chunk; of C encoder frames of a Conformer, (C-1)*4 + 7
  int stride = 0;       ///< feature frames between chunk starts; 4*C
  int min_frames = 0;   ///< fewer are dropped at the end of audio; 7
  int subsampling = 0;  ///< feature frames per encoder frame; 4

  [[nodiscard]] int overlap() const { return window - stride; }
  /// Encoder frames that two 3-wide convolutions of stride 2 make of `feature_frames`: ((f-1)/2-1)/2.
  [[nodiscard]] static int encoder_frames(int feature_frames) { return ((feature_frames - 1) / 2 - 1) / 2; }
};

}  // namespace tutti
