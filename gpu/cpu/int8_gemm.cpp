#include "gpu/cpu/int8_gemm.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "gpu/cpu/epilogue.hpp"
#include "gpu/cpu/level.hpp"
#include "gpu/cpu/row_quantizer.hpp"
#include "gpu/cpu/targets.hpp"
#include "gpu/int8_weights.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/int8_gemm.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef TUTTI_GPU_CPU_INT8_GEMM_ONCE
#define TUTTI_GPU_CPU_INT8_GEMM_ONCE
namespace tutti::cpu {

// A block's codes fit the second-level cache beside a panel of weights; so do its finished sums.
constexpr int most_block_rows = 256;
constexpr int block_codes = 1 << 17;
constexpr int finished_columns = 128;
static_assert(most_block_rows * finished_columns <= static_cast<int>(GemmScratch::floats));
constexpr int longest_row = 1 << 17;
static_assert(int64_t{longest_row} / 4 * max_quad_magnitude * 255 <= INT32_MAX);
// Every block has room for its rows, of which the last may have to be gathered.
static_assert((block_codes + longest_row) / 4 + longest_row <= static_cast<int>(GemmScratch::floats));

/// Packed weights: for each panel of columns, for each four k, for each column, its four codes. Columns
/// beyond the last are zero.
struct CodePanels {
  const int8_t* codes;
  const float* scales;       ///< of each column
  const int32_t* code_sums;  ///< of each column
  const float* bias;
  int in_features;
  int out_features;
  int depth;  ///< in_features, rounded up
};

}  // namespace tutti::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Sums = hn::ScalableTag<int32_t>;
using Vec = hn::Vec<Sums>;

// Sums, weights of eight k and two broadcasts must fit the registers: 16, or 32 on AVX-512.
constexpr int panel_vectors = HWY_TARGET == HWY_AVX3 ? 2 : 1;
constexpr int max_tile_rows = HWY_TARGET == HWY_AVX3 ? 10 : 8;

int panel_columns() { return panel_vectors * static_cast<int>(hn::Lanes(Sums())); }

// `add_products` adds to each column's sum the products of four codes of a row with the column's in w0, and
// of the next four with those in w1.

#if HWY_TARGET == HWY_AVX2

struct Multiply {
  HWY_INLINE Vec add_products(Vec sum, Vec x0, Vec w0, Vec x1, Vec w1) const {
    const __m256i pairs =
        _mm256_add_epi16(_mm256_maddubs_epi16(x0.raw, w0.raw), _mm256_maddubs_epi16(x1.raw, w1.raw));
    return hn::Add(sum, Vec{_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))});
  }
};

#elif HWY_TARGET == HWY_AVX3

struct Multiply {
  HWY_INLINE Vec add_products(Vec sum, Vec x0, Vec w0, Vec x1, Vec w1) const {
    const __m512i pairs =
        _mm512_add_epi16(_mm512_maddubs_epi16(x0.raw, w0.raw), _mm512_maddubs_epi16(x1.raw, w1.raw));
    return hn::Add(sum, Vec{_mm512_madd_epi16(pairs, _mm512_set1_epi16(1))});
  }
};

/// An instruction that Highway's AVX3 does not include: only where `vnni_is_in_use`.
struct MultiplyVnni {
  HWY_INLINE Vec add_products(Vec sum, Vec x0, Vec w0, Vec x1, Vec w1) const {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(x0.raw), "v"(w0.raw));
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(x1.raw), "v"(w1.raw));
    return sum;
  }
};

#else

struct Multiply {
  HWY_INLINE Vec add_products(Vec sum, Vec x0, Vec w0, Vec x1, Vec w1) const {
    return add_four(add_four(sum, x0, w0), x1, w1);
  }

 private:
  static HWY_INLINE Vec add_four(Vec sum, Vec x, Vec w) {
    sum = add_one<24>(sum, x, w);
    sum = add_one<16>(sum, x, w);
    sum = add_one<8>(sum, x, w);
    return add_one<0>(sum, x, w);
  }
  /// Byte 3 - kShift / 8 of each: `x` unsigned, `w` signed.
  template <int kShift>
  static HWY_INLINE Vec add_one(Vec sum, Vec x, Vec w) {
    const Sums d;
    const hn::RebindToUnsigned<Sums> du;
    const Vec code = hn::BitCast(d, hn::ShiftRight<24>(hn::ShiftLeft<kShift>(hn::BitCast(du, x))));
    return hn::Add(sum, hn::Mul(code, hn::ShiftRight<24>(hn::ShiftLeft<kShift>(w))));
  }
};

#endif

/// Four codes in every lane.
HWY_INLINE Vec broadcast(const uint8_t* codes) {
  int32_t four;
  std::memcpy(&four, codes, sizeof(four));
  return hn::Set(Sums(), four);
}

HWY_INLINE Vec load_weights(const int8_t* codes) {
  return hn::Load(Sums(), reinterpret_cast<const int32_t*>(codes));
}

/// Where a tile's finished sums go.
struct Finish {
  const RowCodes* rows;
  const float* scales;
  const int32_t* code_sums;
  float* acc;
};

/// kRows rows of `codes`, depth apart, times one panel.
template <int kRows, class Product>
void multiply_tile(const uint8_t* HWY_RESTRICT codes, const int8_t* HWY_RESTRICT w, int depth,
                   const Finish& to) {
  const Sums d;
  const size_t lanes = hn::Lanes(d);
  const size_t four_k = panel_vectors * 4 * lanes;
  const Product product;
  Vec sums[kRows][panel_vectors];
#pragma GCC unroll 10
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < panel_vectors; ++v) sums[r][v] = hn::Zero(d);
  }
  // The next panel follows in memory: a model's weights do not stay in the caches from one tick to the next.
  const size_t next_panel = four_k * static_cast<size_t>(depth / 4);
  for (int k = 0; k < depth; k += code_group) {
    for (size_t line = 0; line < 2 * four_k; line += 64) hwy::Prefetch(w + next_panel + line);
    Vec w0[panel_vectors], w1[panel_vectors];
#pragma GCC unroll 2
    for (int v = 0; v < panel_vectors; ++v) {
      w0[v] = load_weights(w + static_cast<size_t>(v) * 4 * lanes);
      w1[v] = load_weights(w + four_k + static_cast<size_t>(v) * 4 * lanes);
    }
    w += 2 * four_k;
#pragma GCC unroll 10
    for (int r = 0; r < kRows; ++r) {
      const Vec x0 = broadcast(codes + r * depth + k);
      const Vec x1 = broadcast(codes + r * depth + k + 4);
#pragma GCC unroll 2
      for (int v = 0; v < panel_vectors; ++v) {
        sums[r][v] = product.add_products(sums[r][v], x0, w0[v], x1, w1[v]);
      }
    }
  }
  // sum over k of (code - zero) * weight = sum of code * weight - zero * sum of weight
  const hn::ScalableTag<float> df;
#pragma GCC unroll 10
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < panel_vectors; ++v) {
      const size_t c = static_cast<size_t>(v) * lanes;
      const Vec offset = hn::Mul(hn::Set(d, to.rows[r].zero), hn::LoadU(d, to.code_sums + c));
      const auto sum = hn::ConvertTo(df, hn::Sub(sums[r][v], offset));
      const auto scaled = hn::Mul(hn::Mul(sum, hn::LoadU(df, to.scales + c)), hn::Set(df, to.rows[r].scale));
      hn::StoreU(scaled, df, to.acc + r * finished_columns + c);
    }
  }
}

using TileKernel = void (*)(const uint8_t*, const int8_t*, int, const Finish&);
using TileKernels = std::array<TileKernel, max_tile_rows + 1>;

template <class Product, int... kRows>
constexpr TileKernels tile_kernels(std::integer_sequence<int, kRows...>) {
  return {nullptr, multiply_tile<kRows + 1, Product>...};
}

template <class Product>
constexpr TileKernels kernels_of = tile_kernels<Product>(std::make_integer_sequence<int, max_tile_rows>());

const TileKernels& kernels() {
#if HWY_TARGET == HWY_AVX3
  if (vnni_is_in_use()) return kernels_of<MultiplyVnni>;
#endif
  return kernels_of<Multiply>;
}

/// All rows of a block times one panel, in tiles of nearly equal height.
void multiply_panel(const uint8_t* codes, const int8_t* w, int rows, int depth, Finish to) {
  const TileKernels& tiles_of = kernels();
  for (int tiles = (rows + max_tile_rows - 1) / max_tile_rows; tiles > 0; --tiles) {
    const int height = rows / tiles;
    tiles_of[static_cast<size_t>(height)](codes, w, depth, to);
    codes += height * depth;
    to.rows += height;
    to.acc += height * finished_columns;
    rows -= height;
  }
}

/// Rows [first_row, first_row + rows) of the product.
void multiply_rows(const CodePanels& panels, const GemmInput& x, int64_t first_row, int rows,
                   const GemmOutput& out, GemmScratch& scratch) {
  auto* codes = reinterpret_cast<uint8_t*>(scratch.input.data());
  float* gathered = scratch.input.data() + (block_codes + longest_row) / 4;
  std::array<RowCodes, most_block_rows> row_codes;
  const bool in_one_run = x.run_length == panels.in_features;
  for (int r = 0; r < rows; ++r) {
    if (!in_one_run) x.gather(first_row + r, 0, panels.in_features, gathered);
    row_codes[static_cast<size_t>(r)] = quantize_row(in_one_run ? x.row(first_row + r) : gathered,
                                                     panels.in_features, codes + r * panels.depth);
  }
  const int panel = panel_columns();
  const int8_t* weights = panels.codes;
  for (int n = 0; n < panels.out_features; n += finished_columns) {
    const int columns = std::min(finished_columns, panels.out_features - n);
    for (int c = 0; c < columns; c += panel) {
      multiply_panel(codes, weights, rows, panels.depth,
                     {.rows = row_codes.data(),
                      .scales = panels.scales + n + c,
                      .code_sums = panels.code_sums + n + c,
                      .acc = scratch.accumulators.data() + c});
      weights += panel * panels.depth;
    }
    apply_epilogue({.acc = scratch.accumulators.data(),
                    .acc_stride = finished_columns,
                    .first_row = first_row,
                    .first_column = n,
                    .rows = rows,
                    .columns = columns},
                   panels.bias, panels.out_features, out);
  }
}

void multiply(const CodePanels& panels, const GemmInput& x, int64_t rows, const GemmOutput& out,
              GemmScratch& scratch) {
  const int block_rows = std::clamp(block_codes / panels.depth, 1, most_block_rows);
  int64_t first = 0;
  for (int64_t blocks = (rows + block_rows - 1) / block_rows; blocks > 0; --blocks) {
    const int height = static_cast<int>((rows - first) / blocks);
    multiply_rows(panels, x, first, height, out, scratch);
    first += height;
  }
}

}  // namespace
}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
namespace {

HWY_EXPORT(panel_columns);
HWY_EXPORT(multiply);

int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

class Int8Gemm final : public PackedGemm {
 public:
  explicit Int8Gemm(const GemmWeights& w)
      : PackedGemm(w.in_features, w.out_features),
        panel_(HWY_DYNAMIC_DISPATCH(panel_columns)()),
        depth_(round_up(w.in_features, code_block)),
        columns_(static_cast<size_t>(round_up(w.out_features, panel_))),
        codes_(columns_ * static_cast<size_t>(depth_), Pages::huge),
        scales_(columns_),
        code_sums_(columns_),
        bias_(static_cast<size_t>(w.out_features)) {
    std::ranges::fill(codes_.span(), int8_t{0});
    for (int n = 0; n < w.out_features; ++n) pack_column(w, n);
    if (w.bias != nullptr) std::copy_n(w.bias, w.out_features, bias_.begin());
  }

  void run(const GemmInput& x, int64_t rows, const GemmOutput& out, GemmScratch& scratch) const override {
    HWY_DYNAMIC_DISPATCH(multiply)
    ({.codes = codes_.data(),
      .scales = scales_.data(),
      .code_sums = code_sums_.data(),
      .bias = bias_.data(),
      .in_features = in_features(),
      .out_features = out_features(),
      .depth = depth_},
     x, rows, out, scratch);
  }

 private:
  void pack_column(const GemmWeights& w, int n) {
    const auto in = static_cast<size_t>(w.in_features);
    const auto at = static_cast<size_t>(n);
    std::vector<int8_t> column(in);
    scales_[at] = quantize_weights({w.weight + at * in, in}, column);
    code_sums_[at] = std::accumulate(column.begin(), column.end(), 0);
    const auto panel = static_cast<size_t>(panel_);
    int8_t* to = codes_.data() + at / panel * panel * static_cast<size_t>(depth_) + at % panel * 4;
    for (size_t k = 0; k < in; ++k) to[k / 4 * 4 * panel + k % 4] = column[k];
  }

  int panel_;
  int depth_;
  size_t columns_;
  AlignedArray<int8_t> codes_;
  std::vector<float> scales_;
  std::vector<int32_t> code_sums_;
  std::vector<float> bias_;
};

}  // namespace

std::unique_ptr<const PackedGemm> pack_int8_gemm(const GemmWeights& weights) {
  if (weights.in_features > longest_row) return nullptr;
  return std::make_unique<Int8Gemm>(weights);
}

}  // namespace tutti::cpu
#endif
