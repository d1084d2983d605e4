#include "cache/dense_decoder_kv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace tutti {
namespace {

constexpr int32_t no_row = -1;

/// One page a row, so that pages cannot run short.
DecoderKvConfig dense(DecoderKvConfig config) {
  config.page_tokens = std::max(config.max_row_tokens, 1);
  config.num_pages = 0;
  return config.validated();
}

Shape data_shape(const DecoderKvConfig& c) {
  return {c.num_layers, c.max_rows, c.max_row_tokens, c.n_kv_head, c.head_dim};
}

Shape scales_shape(const DecoderKvConfig& c) {
  return {c.num_layers, c.max_rows, c.max_row_tokens, c.n_kv_head};
}

/// Whether rows of one mean the same in the other.
bool same_vectors(const DecoderKvConfig& a, const DecoderKvConfig& b) {
  return a.num_layers == b.num_layers && a.n_kv_head == b.n_kv_head && a.head_dim == b.head_dim &&
         a.format == b.format;
}

std::string describe(const DecoderKvConfig& c) {
  return fmt::format("{} layers of {} heads of {} in {}", c.num_layers, c.n_kv_head, c.head_dim,
                     decoder_kv_format_name(c.format));
}

}  // namespace

DenseDecoderKv::DenseDecoderKv(const DecoderKvConfig& config, Ops& ops)
    : config_(dense(config)),
      ops_(ops),
      k_(ops.allocate(config_.format, data_shape(config_))),
      v_(ops.allocate(config_.format, data_shape(config_))),
      rows_(static_cast<size_t>(config_.max_rows)),
      cache_seqlens_(rows_.size()),
      prepared_(rows_.size()),
      selected_rows_(rows_.size()),
      selected_seqlens_(rows_.size()),
      taken_(rows_.size()) {
  if (config_.format == DType::f8e4m3) {
    k_scales_ = ops.allocate(DType::f32, scales_shape(config_));
    v_scales_ = ops.allocate(DType::f32, scales_shape(config_));
  }
  std::iota(rows_.begin(), rows_.end(), 0);
}

void DenseDecoderKv::reset(int lanes) {
  if (lanes < 0 || lanes > max_rows()) {
    throw std::invalid_argument(
        fmt::format("DenseDecoderKv::reset: {} lanes, expected 0 to {}", lanes, max_rows()));
  }
  lanes_ = lanes;
  std::ranges::fill(cache_seqlens_, 0);
  std::ranges::fill(prepared_, 0);
}

void DenseDecoderKv::prepare_step(std::span<const int> tokens) {
  constexpr auto where = "DenseDecoderKv::prepare_step";
  require_count(where, tokens.size());
  for (size_t lane = 0; lane < tokens.size(); ++lane) {
    if (tokens[lane] < 1) {
      throw std::invalid_argument(
          fmt::format("{}: lane {}: {} tokens, expected at least 1", where, lane, tokens[lane]));
    }
    if (tokens[lane] > capacity() - cache_seqlens_[lane]) {
      throw std::logic_error(
          fmt::format("{}: lane {} holds {} tokens and {} more were requested, expected at most {}", where,
                      lane, cache_seqlens_[lane], tokens[lane], capacity()));
    }
  }
  std::ranges::copy(tokens, prepared_.begin());
}

void DenseDecoderKv::commit_step(std::span<const int> tokens) {
  constexpr auto where = "DenseDecoderKv::commit_step";
  require_count(where, tokens.size());
  for (size_t lane = 0; lane < tokens.size(); ++lane) {
    if (tokens[lane] >= 0 && tokens[lane] <= prepared_[lane]) continue;
    throw std::logic_error(fmt::format("{}: lane {} commits {} tokens, expected 0 to the {} prepared", where,
                                       lane, tokens[lane], prepared_[lane]));
  }
  for (size_t lane = 0; lane < tokens.size(); ++lane) cache_seqlens_[lane] += tokens[lane];
  std::ranges::fill(prepared_, 0);
}

void DenseDecoderKv::select(std::span<const int32_t> lanes) {
  constexpr auto where = "DenseDecoderKv::select";
  if (lanes.size() > rows_.size()) {
    throw std::invalid_argument(
        fmt::format("{}: {} lanes, expected at most {}", where, lanes.size(), max_rows()));
  }
  for (const int32_t lane : lanes) {
    if (lane >= 0 && lane < lanes_) continue;
    throw std::invalid_argument(fmt::format("{}: lane {}, expected one of [0, {})", where, lane, lanes_));
  }
  taken_.assign(taken_.size(), false);
  for (size_t i = 0; i < lanes.size(); ++i) {
    const auto from = static_cast<size_t>(lanes[i]);
    selected_seqlens_[i] = cache_seqlens_[from];
    const auto row = static_cast<size_t>(rows_[from]);
    selected_rows_[i] = taken_[row] ? no_row : rows_[from];
    taken_[row] = true;
  }
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (i < lanes.size() && selected_rows_[i] != no_row) continue;
    selected_rows_[i] = take_row();
    if (i < lanes.size()) {
      copy_row(*this, rows_[static_cast<size_t>(lanes[i])], selected_rows_[i], selected_seqlens_[i]);
    }
  }
  rows_.swap(selected_rows_);
  cache_seqlens_.swap(selected_seqlens_);
  lanes_ = static_cast<int>(lanes.size());
  std::ranges::fill(prepared_, 0);
}

void DenseDecoderKv::merge(const DenseDecoderKv& other) {
  constexpr auto where = "DenseDecoderKv::merge";
  if (!same_vectors(config_, other.config_)) {
    throw std::invalid_argument(
        fmt::format("{}: {}, expected {}", where, describe(other.config_), describe(config_)));
  }
  const auto added = std::span(other.cache_seqlens_).first(static_cast<size_t>(other.lanes_));
  if (other.lanes_ > max_rows() - lanes_) {
    throw std::invalid_argument(fmt::format("{}: {} lanes, expected at most {} beside {}", where,
                                            other.lanes_, max_rows() - lanes_, lanes_));
  }
  for (const int32_t tokens : added) {
    if (tokens <= capacity()) continue;
    throw std::invalid_argument(
        fmt::format("{}: a lane holds {} tokens, expected at most {}", where, tokens, capacity()));
  }
  for (size_t i = 0; i < added.size(); ++i) {
    const auto lane = static_cast<size_t>(lanes_++);
    copy_row(other, other.rows_[i], rows_[lane], added[i]);
    cache_seqlens_[lane] = added[i];
    prepared_[lane] = 0;
  }
}

DecoderKv DenseDecoderKv::layer(int layer) const {
  if (layer < 0 || layer >= config_.num_layers) {
    throw std::out_of_range(
        fmt::format("DenseDecoderKv::layer: layer {}, expected one of [0, {})", layer, config_.num_layers));
  }
  const auto lanes = static_cast<size_t>(lanes_);
  DecoderKv kv{.k = k_.view()[layer],
               .v = v_.view()[layer],
               .block_table = std::span(rows_).first(lanes),
               .table_width = 1,
               .cache_seqlens = std::span(cache_seqlens_).first(lanes)};
  if (config_.format == DType::f8e4m3) {
    kv.k_scales = k_scales_.view()[layer];
    kv.v_scales = v_scales_.view()[layer];
  }
  return kv;
}

int DenseDecoderKv::cached_tokens(int lane) const {
  if (lane < 0 || lane >= lanes_) {
    throw std::out_of_range(
        fmt::format("DenseDecoderKv::cached_tokens: lane {}, expected one of [0, {})", lane, lanes_));
  }
  return cache_seqlens_[static_cast<size_t>(lane)];
}

size_t DenseDecoderKv::bytes() const {
  const size_t scales = config_.format == DType::f8e4m3 ? k_scales_.bytes() + v_scales_.bytes() : 0;
  return k_.bytes() + v_.bytes() + scales;
}

void DenseDecoderKv::require_count(const char* where, size_t count) const {
  if (count == static_cast<size_t>(lanes_)) return;
  throw std::invalid_argument(fmt::format("{}: {} token counts, expected {}", where, count, lanes_));
}

/// The first row that no lane of the selection has.
int32_t DenseDecoderKv::take_row() {
  const auto free = std::ranges::find(taken_, false);
  *free = true;
  return static_cast<int32_t>(free - taken_.begin());
}

/// Copies what a row holds in all layers.
void DenseDecoderKv::copy_row(const DenseDecoderKv& from, int32_t from_row, int32_t to_row, int tokens) {
  for (int layer = 0; layer < config_.num_layers; ++layer) {
    const DecoderKv source = from.layer(layer);
    const DecoderKv target = this->layer(layer);
    ops_.copy(source.k[from_row].slice(0, tokens), target.k[to_row].slice(0, tokens));
    ops_.copy(source.v[from_row].slice(0, tokens), target.v[to_row].slice(0, tokens));
    if (config_.format != DType::f8e4m3) continue;
    ops_.copy(source.k_scales[from_row].slice(0, tokens), target.k_scales[to_row].slice(0, tokens));
    ops_.copy(source.v_scales[from_row].slice(0, tokens), target.v_scales[to_row].slice(0, tokens));
  }
}

}  // namespace tutti
