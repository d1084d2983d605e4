#pragma once

#include <cstdint>
#include <string_view>

#include "config/cache_config.hpp"
#include "gpu/tensor.hpp"

namespace tutti {

/// "f32", "bf16" or "fp8_e4m3". Throws std::invalid_argument for a type that K and V are not stored in.
[[nodiscard]] std::string_view decoder_kv_format_name(DType format);
/// The inverse. Throws std::invalid_argument that lists the names for any other.
[[nodiscard]] DType parse_decoder_kv_format(std::string_view name);

/// Geometry and capacity of the K/V cache of an autoregressive decoder.
///
/// A row is what one hypothesis has of self-attention K/V, growing by a token a step, or what one utterance
/// has of cross-attention K/V, an entry an encoder frame. Both live in pages of `page_tokens` entries.
struct DecoderKvConfig {
  int num_layers = 6;
  int n_kv_head = 4;
  int head_dim = 64;
  int page_tokens = 16;       ///< entries of a page
  int max_rows = 64;          ///< rows that exist at one time
  int max_row_tokens = 1024;  ///< the largest ceiling that a row may declare
  int num_pages = 0;          ///< 0 = what max_rows rows of max_row_tokens need
  DType format = DType::f32;  ///< f32, bf16 or f8e4m3

  /// Returns the configuration with num_pages filled in. Throws std::invalid_argument that names the field,
  /// its value and what is accepted: also for a format that K and V are not stored in, and a head_dim above
  /// max_decoder_head_dim.
  [[nodiscard]] DecoderKvConfig validated() const;

  [[nodiscard]] int pages_for(int tokens) const { return (tokens + page_tokens - 1) / page_tokens; }
  /// As a BlockPool takes it: a chunk is a token, history is unlimited.
  [[nodiscard]] CacheConfig pool_config() const;
  /// K and V of one token over all layers, its scales included: 2 * layers * n_kv_head * (head_dim * element,
  /// and 4 more in fp8_e4m3). 1.88 times fewer in fp8 than in bf16 at head_dim 64, 1.94 times at 128.
  [[nodiscard]] int64_t bytes_per_token() const;
};

}  // namespace tutti
