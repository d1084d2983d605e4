#pragma once

#include <cstdint>
#include <vector>

#include "gpu/tensor.hpp"

namespace tutti {

/// Activation memory of one engine for batches of up to `lanes` chunks, allocated once by
/// ConformerCtc::make_workspace. R = lanes * chunk_size rows, E = R + lanes * (K-1) extended rows.
struct EncoderWorkspace {
  int lanes = 0;
  int rows = 0;
  int top_k = 0;
  Tensor features;       ///< (lanes * window, mel), normalised
  Tensor x;              ///< (R, D), the residual stream
  Tensor normed;         ///< (R, D), also the output of attention and of the convolution
  Tensor hidden;         ///< (R, ffn)
  Tensor qkv;            ///< (R, 3D)
  Tensor extended;       ///< (E, D)
  Tensor gates;          ///< (E, 2D)
  Tensor probed;         ///< (R, D), what a Probe sees of a fused step; empty until a probe is used
  Tensor encoder_out;    ///< (R, D)
  Tensor log_probs;      ///< (R, V)
  Tensor top_ids;        ///< (R, k) i32
  Tensor top_log_probs;  ///< (R, k)
  std::vector<int32_t> feature_begin;  ///< lanes + 1
  std::vector<int32_t> row_begin;      ///< lanes + 1
};

}  // namespace tutti
