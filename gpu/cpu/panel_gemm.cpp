#include "gpu/cpu/panel_gemm.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "gpu/cpu/epilogue.hpp"
#include "gpu/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/panel_gemm.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef TUTTI_GPU_CPU_PANEL_GEMM_ONCE
#define TUTTI_GPU_CPU_PANEL_GEMM_ONCE
namespace tutti::cpu {

// A block of sums and the block of the left operand that feeds it fit the second-level cache together, and
// one panel of weights over a block of K fits the first.
constexpr int row_block = 120;
constexpr int column_block = 256;
constexpr int depth_block = 256;
static_assert(row_block * column_block <= static_cast<int>(GemmScratch::floats));
static_assert(row_block * depth_block <= static_cast<int>(GemmScratch::floats));

/// Packed weights: for each column block, for each depth block, for each panel, for each k, the panel's
/// columns; which is the order they are read in.
struct Panels {
  const float* weights;
  const float* bias;
  int in_features;
  int out_features;
};

}  // namespace tutti::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Vec = hn::Vec<Floats>;

constexpr int panel_vectors = 2;
// Accumulators, one panel row and one broadcast must fit the registers: 16, or 32 on AVX-512 and NEON.
constexpr int max_tile_rows = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 12 : 6;

int panel_columns() { return panel_vectors * static_cast<int>(hn::Lanes(Floats())); }

/// Adds `depth` products to a tile of sums; `kFirst` starts the sums at zero.
template <int kRows, bool kFirst>
void multiply_tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int depth,
                   float* HWY_RESTRICT acc) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  Vec sums[kRows][panel_vectors];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    sums[r][0] = kFirst ? hn::Zero(d) : hn::Load(d, acc + r * column_block);
    sums[r][1] = kFirst ? hn::Zero(d) : hn::Load(d, acc + r * column_block + lanes);
  }
  // The next panel follows in memory: a model's weights do not stay in the caches from one tick to the next.
  const size_t next_panel = panel_vectors * lanes * static_cast<size_t>(depth);
  for (int k = 0; k < depth; ++k) {
    hwy::Prefetch(b + next_panel);
    const Vec b0 = hn::Load(d, b);
    const Vec b1 = hn::Load(d, b + lanes);
    b += panel_vectors * lanes;
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const Vec x = hn::Set(d, a[r * depth_block + k]);
      sums[r][0] = hn::MulAdd(x, b0, sums[r][0]);
      sums[r][1] = hn::MulAdd(x, b1, sums[r][1]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    hn::Store(sums[r][0], d, acc + r * column_block);
    hn::Store(sums[r][1], d, acc + r * column_block + lanes);
  }
}

using TileKernel = void (*)(const float*, const float*, int, float*);
using TileKernels = std::array<std::array<TileKernel, 2>, max_tile_rows + 1>;

template <int... kRows>
constexpr TileKernels tile_kernels(std::integer_sequence<int, kRows...>) {
  return {{{nullptr, nullptr}, {multiply_tile<kRows + 1, false>, multiply_tile<kRows + 1, true>}...}};
}

/// All rows of a block times one panel over one block of K, in tiles of nearly equal height: a tile of one or
/// two rows would wait for its own multiply-adds.
void multiply_panel(const float* a, const float* b, int rows, int depth, bool first, float* acc) {
  static constexpr TileKernels kernels = tile_kernels(std::make_integer_sequence<int, max_tile_rows>());
  for (int tiles = (rows + max_tile_rows - 1) / max_tile_rows; tiles > 0; --tiles) {
    const int height = rows / tiles;
    kernels[static_cast<size_t>(height)][first](a, b, depth, acc);
    a += height * depth_block;
    acc += height * column_block;
    rows -= height;
  }
}

/// Rows [first_row, first_row + rows) of the product, rows <= row_block.
void multiply_rows(const Panels& panels, const GemmInput& x, int64_t first_row, int rows,
                   const GemmOutput& out, GemmScratch& scratch) {
  const int panel = panel_columns();
  float* a = scratch.input.data();
  const float* weights = panels.weights;
  for (int n = 0; n < panels.out_features; n += column_block) {
    const int columns = std::min(column_block, panels.out_features - n);
    for (int k = 0; k < panels.in_features; k += depth_block) {
      const int depth = std::min(depth_block, panels.in_features - k);
      for (int r = 0; r < rows; ++r) x.gather(first_row + r, k, depth, a + r * depth_block);
      for (int c = 0; c < columns; c += panel) {
        multiply_panel(a, weights, rows, depth, k == 0, scratch.accumulators.data() + c);
        weights += panel * depth;
      }
    }
    const int64_t at = first_row * panels.out_features + n;
    apply_epilogue({.acc = scratch.accumulators.data(),
                    .acc_stride = column_block,
                    .y = out.y + at,
                    .residual = out.residual == nullptr ? nullptr : out.residual + at,
                    .y_stride = panels.out_features,
                    .bias = panels.bias + n,
                    .rows = rows,
                    .columns = columns},
                   out.activation, out.scale);
  }
}

void multiply(const Panels& panels, const GemmInput& x, int64_t rows, const GemmOutput& out,
              GemmScratch& scratch) {
  int64_t first = 0;
  for (int64_t blocks = (rows + row_block - 1) / row_block; blocks > 0; --blocks) {
    const int height = static_cast<int>((rows - first) / blocks);
    multiply_rows(panels, x, first, height, out, scratch);
    first += height;
  }
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
namespace {

HWY_EXPORT(panel_columns);
HWY_EXPORT(multiply);
HWY_EXPORT(target_name);

int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

class PanelGemm final : public PackedGemm {
 public:
  explicit PanelGemm(const GemmWeights& w)
      : PackedGemm(w.in_features, w.out_features),
        panel_(HWY_DYNAMIC_DISPATCH(panel_columns)()),
        weights_(static_cast<size_t>(w.in_features) * static_cast<size_t>(round_up(w.out_features, panel_))),
        bias_(static_cast<size_t>(w.out_features)) {
    pack(w);
    if (w.bias == nullptr) {
      std::ranges::fill(bias_.span(), 0.0F);
    } else {
      std::copy_n(w.bias, w.out_features, bias_.data());
    }
  }

  void run(const GemmInput& x, int64_t rows, const GemmOutput& out, GemmScratch& scratch) const override {
    HWY_DYNAMIC_DISPATCH(multiply)
    ({weights_.data(), bias_.data(), in_features(), out_features()}, x, rows, out, scratch);
  }

 private:
  void pack(const GemmWeights& w) {
    float* to = weights_.data();
    for (int n = 0; n < w.out_features; n += column_block) {
      const int end = std::min(n + column_block, w.out_features);
      for (int k = 0; k < w.in_features; k += depth_block) {
        const int depth = std::min(depth_block, w.in_features - k);
        for (int c = n; c < end; c += panel_) to = pack_panel(w, c, k, depth, to);
      }
    }
  }

  /// Columns beyond the last are zero.
  float* pack_panel(const GemmWeights& w, int first_column, int k, int depth, float* to) const {
    std::fill_n(to, panel_ * depth, 0.0F);
    const int columns = std::min(panel_, w.out_features - first_column);
    for (int c = 0; c < columns; ++c) {
      const float* from = w.weight + static_cast<int64_t>(first_column + c) * w.in_features + k;
      for (int i = 0; i < depth; ++i) to[i * panel_ + c] = from[i];
    }
    return to + panel_ * depth;
  }

  int panel_;
  AlignedBuffer weights_;
  AlignedBuffer bias_;
};

}  // namespace

std::unique_ptr<const PackedGemm> pack_panel_gemm(const GemmWeights& weights) {
  return std::make_unique<PanelGemm>(weights);
}

const char* instruction_set() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace tutti::cpu
#endif
