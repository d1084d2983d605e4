#pragma once

#include <optional>
#include <string>

#include "model/checkpoint.hpp"

namespace tutti::limits {

// What every description of a model may state, whatever file it is in.

inline constexpr int max_blocks = 256;
inline constexpr int max_width = 1 << 16;
inline constexpr int max_vocabulary = 1 << 20;
inline constexpr int max_kernel = 255;
inline constexpr int min_mel_bins = 7;  // fewer leave nothing after two convolutions of kernel 3 and stride 2
inline constexpr int max_mel_bins = 512;
inline constexpr int max_frame_ms = 200;
inline constexpr int sample_rate = 16000;
inline constexpr float min_norm_eps = 1e-12F;
inline constexpr float max_norm_eps = 1;
inline constexpr float max_ctc_weight = 100;
inline constexpr float default_reverse_weight = 0.3F;  // of a model with a second decoder

/// A value that does not go with the others.
struct Misfit {
  std::string key;
  std::string value;
  std::string accepted;
};

/// The first misfit among numbers that each lie within the limits.
[[nodiscard]] std::optional<Misfit> find_misfit(const ConformerSpec& spec);
[[nodiscard]] std::optional<Misfit> find_misfit(const DecoderSpec& decoder, const ConformerSpec& spec);

}  // namespace tutti::limits
