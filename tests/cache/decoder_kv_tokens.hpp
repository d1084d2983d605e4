#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cache/decoder_kv_batch.hpp"

namespace tutti {

/// The bytes that a lane's entry `token` has in one layer, K and V and their scales, through the addresses
/// that a kernel would use.
inline std::vector<std::span<std::byte>> bytes_of_token(const DecoderKv& kv, int lane, int token) {
  const int64_t page_tokens = kv.k.shape[1];
  const auto page = kv.block_table[static_cast<size_t>(lane * kv.table_width + token / page_tokens)];
  std::vector<std::span<std::byte>> parts;
  for (const TensorView& part : {kv.k, kv.v, kv.k_scales, kv.v_scales}) {
    if (part.data == nullptr) continue;
    const TensorView entry = part[page][token % page_tokens];
    parts.emplace_back(entry.data, entry.bytes());
  }
  return parts;
}

/// What is stored of a token: differs with the token, the layer and the part.
inline std::byte mark(int token, int layer, size_t part, size_t byte) {
  return static_cast<std::byte>((token * 7 + layer * 3 + static_cast<int>(part)) >> (byte % 3 * 8));
}

inline void write_token(const DecoderKvBatch& batch, int num_layers, int lane, int at, int token) {
  for (int layer = 0; layer < num_layers; ++layer) {
    const auto parts = bytes_of_token(batch.layer(layer), lane, at);
    for (size_t part = 0; part < parts.size(); ++part) {
      for (size_t i = 0; i < parts[part].size(); ++i) parts[part][i] = mark(token, layer, part, i);
    }
  }
}

/// Expects a lane to hold these tokens.
inline void expect_tokens(const DecoderKvBatch& batch, int num_layers, int lane,
                          const std::vector<int>& tokens) {
  ASSERT_EQ(batch.layer(0).cache_seqlens[static_cast<size_t>(lane)], std::ssize(tokens)) << "lane " << lane;
  for (int layer = 0; layer < num_layers; ++layer) {
    const DecoderKv kv = batch.layer(layer);
    for (size_t at = 0; at < tokens.size(); ++at) {
      const auto parts = bytes_of_token(kv, lane, static_cast<int>(at));
      for (size_t part = 0; part < parts.size(); ++part) {
        for (size_t i = 0; i < parts[part].size(); ++i) {
          ASSERT_EQ(parts[part][i], mark(tokens[at], layer, part, i))
              << "lane " << lane << " token " << at << " layer " << layer << " part " << part;
        }
      }
    }
  }
}

}  // namespace tutti
