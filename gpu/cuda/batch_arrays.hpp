#pragma once

#include <cstdint>
#include <vector>

#include "gpu/cuda/kernels.hpp"
#include "gpu/ops.hpp"

namespace tutti::cuda {

/// What kernels need to know of a batch, row by row or lane by lane, computed from its layout. Each function
/// fills the arrays that its comment names; their memory is kept.
struct BatchArrays {
  /// For at most so many packed rows and lanes nothing is allocated.
  void reserve(int lanes, int rows);

  /// `tiles` of at most conv_tile_rows rows for depthwise convolutions with `taps` taps.
  void tile(const BatchLayout& layout, int32_t taps);
  /// Where each frame after the first convolution of the lanes [begin, end) has its features (`feature_row`),
  /// and each row its frames (`frame_begin`): a lane has two frames a row, and one more.
  void subsample(const BatchLayout& feature_layout, const BatchLayout& layout, int begin, int end);
  /// Each row's new frame's place in the pool (`row_place`), what each lane attends to (`attention_lanes`),
  /// and `attention_tiles` of at most attention_tile_rows rows.
  void attend(const BatchLayout& layout, const PagedKv& kv, std::span<const int32_t> first_position);
  /// Each row's new token's place in the pool (`row_place`).
  void append(const BatchLayout& layout, const DecoderKv& kv);
  /// Each row's lane (`row_lane`) and what the lane attends to (`decoder_lanes`). A lane without history
  /// reads its keys and values as they were given.
  void attend(const BatchLayout& layout, const DecoderKv& kv, bool causal);

  std::vector<ConvTile> tiles;
  std::vector<int32_t> feature_row;
  std::vector<int32_t> frame_begin;
  std::vector<int32_t> row_lane;
  std::vector<int32_t> row_place;
  std::vector<AttentionLane> attention_lanes;
  std::vector<AttentionTile> attention_tiles;
  std::vector<DecoderLane> decoder_lanes;
};

}  // namespace tutti::cuda
