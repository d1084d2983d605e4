#include "gpu/cuda/batch_arrays.hpp"

#include <algorithm>

namespace tutti::cuda {

void BatchArrays::reserve(int lanes, int rows) {
  const auto many = static_cast<size_t>(rows);
  tiles.reserve(static_cast<size_t>(lanes + rows / conv_tile_rows));
  feature_row.reserve(static_cast<size_t>(lanes + 2 * rows));
  for (std::vector<int32_t>* of_rows : {&frame_begin, &row_lane, &row_place}) of_rows->reserve(many);
  attention_lanes.reserve(static_cast<size_t>(lanes));
  attention_tiles.reserve(static_cast<size_t>(lanes + rows / attention_tile_rows));
  decoder_lanes.reserve(static_cast<size_t>(lanes));
}

void BatchArrays::tile(const BatchLayout& layout, int32_t taps) {
  tiles.clear();
  for (int lane = 0; lane < layout.lanes(); ++lane) {
    const int32_t context = lane * (taps - 1);
    const int32_t end = layout.row_begin[static_cast<size_t>(lane) + 1];
    for (int32_t row = layout.row_begin[static_cast<size_t>(lane)]; row < end; row += conv_tile_rows) {
      tiles.push_back({row + context, row, std::min(conv_tile_rows, end - row)});
    }
  }
}

void BatchArrays::subsample(const BatchLayout& feature_layout, const BatchLayout& layout, int begin,
                            int end) {
  feature_row.clear();
  frame_begin.clear();
  for (int lane = begin; lane < end; ++lane) {
    if (layout.rows(lane) == 0) continue;
    const auto first = static_cast<int32_t>(feature_row.size());
    for (int row = 0; row < layout.rows(lane); ++row) frame_begin.push_back(first + 2 * row);
    for (int frame = 0; frame <= 2 * layout.rows(lane); ++frame) {
      feature_row.push_back(feature_layout.row_begin[static_cast<size_t>(lane)] + 2 * frame);
    }
  }
}

void BatchArrays::attend(const BatchLayout& layout, const PagedKv& kv,
                         std::span<const int32_t> first_position) {
  const auto block_size = static_cast<int32_t>(kv.k.shape[1]);
  row_place.clear();
  attention_lanes.clear();
  attention_tiles.clear();
  for (int lane = 0; lane < layout.lanes(); ++lane) {
    const auto i = static_cast<size_t>(lane);
    const int32_t table = lane * kv.table_width;
    attention_lanes.push_back({kv.cache_seqlens[i] + layout.rows(lane), kv.cache_begin[i],
                               first_position[i] - kv.cache_seqlens[i], table});
    int32_t logical = kv.cache_begin[i] + kv.cache_seqlens[i];
    for (int row = 0; row < layout.rows(lane); ++row, ++logical) {
      const int32_t block = kv.block_table[static_cast<size_t>(table + logical / block_size)];
      row_place.push_back(block * block_size + logical % block_size);
    }
    for (int row = 0; row < layout.rows(lane); row += attention_tile_rows) {
      attention_tiles.push_back(
          {lane, layout.row_begin[i] + row, std::min(attention_tile_rows, layout.rows(lane) - row)});
    }
  }
}

void BatchArrays::append(const BatchLayout& layout, const DecoderKv& kv) {
  const auto page_tokens = static_cast<int32_t>(kv.k.shape[1]);
  row_place.clear();
  for (int lane = 0; lane < layout.lanes(); ++lane) {
    int32_t token = kv.cache_seqlens[static_cast<size_t>(lane)];
    for (int row = 0; row < layout.rows(lane); ++row, ++token) {
      const int32_t page = kv.block_table[static_cast<size_t>(lane * kv.table_width + token / page_tokens)];
      row_place.push_back(page * page_tokens + token % page_tokens);
    }
  }
}

void BatchArrays::attend(const BatchLayout& layout, const DecoderKv& kv, bool causal) {
  row_lane.clear();
  decoder_lanes.clear();
  for (int lane = 0; lane < layout.lanes(); ++lane) {
    const int32_t history = kv.cache_seqlens[static_cast<size_t>(lane)];
    decoder_lanes.push_back({.first_row = layout.row_begin[static_cast<size_t>(lane)],
                             .first_row_keys = causal ? history + 1 : history,
                             .table = lane * kv.table_width,
                             .given = causal && history == 0 ? 1 : 0});
    row_lane.insert(row_lane.end(), static_cast<size_t>(layout.rows(lane)), lane);
  }
}

}  // namespace tutti::cuda
