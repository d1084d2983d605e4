#include "cache/decoder_kv_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "cache/block_pool.hpp"
#include "gpu/ops.hpp"

namespace tutti {
namespace {

constexpr std::pair<std::string_view, DType> formats[] = {
    {"f32", DType::f32}, {"bf16", DType::bf16}, {"fp8_e4m3", DType::f8e4m3}};

constexpr int max_extent = 1 << 20;

void require_within(std::string_view field, int value, int min, int max) {
  if (value >= min && value <= max) return;
  throw std::invalid_argument(
      fmt::format("decoder K/V: {} = {}: expected a whole number from {} to {}", field, value, min, max));
}

}  // namespace

std::string_view decoder_kv_format_name(DType format) {
  for (const auto& [name, dtype] : formats) {
    if (dtype == format) return name;
  }
  throw std::invalid_argument("decoder K/V: keys and values are stored as f32, bf16 or fp8_e4m3");
}

DType parse_decoder_kv_format(std::string_view name) {
  for (const auto& [known, dtype] : formats) {
    if (known == name) return dtype;
  }
  throw std::invalid_argument(
      fmt::format("decoder K/V: format \"{}\": expected f32, bf16 or fp8_e4m3", name));
}

DecoderKvConfig DecoderKvConfig::validated() const {
  require_within("num_layers", num_layers, 1, max_extent);
  require_within("n_kv_head", n_kv_head, 1, max_extent);
  require_within("head_dim", head_dim, 1, max_decoder_head_dim);
  require_within("page_tokens", page_tokens, 1, max_extent);
  require_within("max_rows", max_rows, 1, max_extent);
  require_within("max_row_tokens", max_row_tokens, 1, max_extent);
  (void)decoder_kv_format_name(format);
  DecoderKvConfig c = *this;
  const int64_t needed = int64_t{max_rows} * pages_for(max_row_tokens);
  if (needed > max_extent && num_pages == 0) {
    throw std::invalid_argument(fmt::format(
        "decoder K/V: max_rows = {}: expected at most {} with {} pages a row, or num_pages to be given",
        max_rows, max_extent / pages_for(max_row_tokens), pages_for(max_row_tokens)));
  }
  if (num_pages == 0) c.num_pages = static_cast<int>(needed);
  // A row that could never hold a token is of no use, nor is one that could never reach its ceiling.
  require_within("num_pages", c.num_pages, std::max(max_rows, pages_for(max_row_tokens)), max_extent);
  return c;
}

CacheConfig DecoderKvConfig::pool_config() const {
  return {.num_layers = num_layers,
          .n_kv_head = n_kv_head,
          .head_dim = head_dim,
          .hidden_dim = n_kv_head * head_dim,
          .chunk_size = 1,
          .num_left_chunks = -1,
          .block_size_frames = page_tokens,
          .max_num_blocks = num_pages,
          .max_blocks_per_seq = pages_for(max_row_tokens),
          .max_streams = max_rows};
}

int64_t DecoderKvConfig::bytes_per_token() const {
  return bytes_per_kv_block(pool_config(), format) / page_tokens;
}

}  // namespace tutti
