#include "gpu/cpu/panel_gemm.hpp"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "gpu/bfloat16.hpp"
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

/// Packed weights, float or the bits of a bfloat16: for each column block, for each depth block, for each
/// panel, for each k, the panel's columns; which is the order they are read in.
template <class Weight>
struct Panels {
  const Weight* weights;
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

HWY_INLINE Vec load_weights(const float* b) { return hn::Load(Floats(), b); }
HWY_INLINE Vec load_weights(const uint16_t* b) {
  const hn::RebindToUnsigned<Floats> bits;
  const hn::Rebind<uint16_t, Floats> halves;
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(bits, hn::Load(halves, b))));
}

/// Adds `depth` products to a tile of sums; `kFirst` starts the sums at zero.
template <class Weight, int kRows, bool kFirst>
void multiply_tile(const float* HWY_RESTRICT a, const Weight* HWY_RESTRICT b, int depth,
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
    const Vec b0 = load_weights(b);
    const Vec b1 = load_weights(b + lanes);
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

template <class Weight>
using TileKernel = void (*)(const float*, const Weight*, int, float*);
template <class Weight>
using TileKernels = std::array<std::array<TileKernel<Weight>, 2>, max_tile_rows + 1>;

template <class Weight, int... kRows>
constexpr TileKernels<Weight> tile_kernels(std::integer_sequence<int, kRows...>) {
  return {{{nullptr, nullptr},
           {multiply_tile<Weight, kRows + 1, false>, multiply_tile<Weight, kRows + 1, true>}...}};
}

/// All rows of a block times one panel over one block of K, in tiles of nearly equal height: a tile of one or
/// two rows would wait for its own multiply-adds.
template <class Weight>
void multiply_panel(const float* a, const Weight* b, int rows, int depth, bool first, float* acc) {
  static constexpr auto kernels = tile_kernels<Weight>(std::make_integer_sequence<int, max_tile_rows>());
  for (int tiles = (rows + max_tile_rows - 1) / max_tile_rows; tiles > 0; --tiles) {
    const int height = rows / tiles;
    kernels[static_cast<size_t>(height)][first](a, b, depth, acc);
    a += height * depth_block;
    acc += height * column_block;
    rows -= height;
  }
}

/// Rows [first_row, first_row + rows) of the product, rows <= row_block.
template <class Weight>
void multiply_rows(const Panels<Weight>& panels, const GemmInput& x, int64_t first_row, int rows,
                   const GemmOutput& out, GemmScratch& scratch) {
  const int panel = panel_columns();
  float* a = scratch.input.data();
  const Weight* weights = panels.weights;
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
    apply_epilogue({.acc = scratch.accumulators.data(),
                    .acc_stride = column_block,
                    .first_row = first_row,
                    .first_column = n,
                    .rows = rows,
                    .columns = columns},
                   panels.bias, panels.out_features, out);
  }
}

template <class Weight>
void multiply(const Panels<Weight>& panels, const GemmInput& x, int64_t rows, const GemmOutput& out,
              GemmScratch& scratch) {
  int64_t first = 0;
  for (int64_t blocks = (rows + row_block - 1) / row_block; blocks > 0; --blocks) {
    const int height = static_cast<int>((rows - first) / blocks);
    multiply_rows(panels, x, first, height, out, scratch);
    first += height;
  }
}

void multiply_fp32(const Panels<float>& panels, const GemmInput& x, int64_t rows, const GemmOutput& out,
                   GemmScratch& scratch) {
  multiply(panels, x, rows, out, scratch);
}

void multiply_bf16(const Panels<uint16_t>& panels, const GemmInput& x, int64_t rows, const GemmOutput& out,
                   GemmScratch& scratch) {
  multiply(panels, x, rows, out, scratch);
}

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
namespace {

HWY_EXPORT(panel_columns);
HWY_EXPORT(multiply_fp32);
HWY_EXPORT(multiply_bf16);

int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

float stored_as(float value, float /*type*/) { return value; }
uint16_t stored_as(float value, uint16_t /*type*/) { return to_bfloat16(value); }

template <class Weight>
class PanelGemm final : public PackedGemm {
 public:
  explicit PanelGemm(const GemmWeights& w)
      : PackedGemm(w.in_features, w.out_features),
        panel_(HWY_DYNAMIC_DISPATCH(panel_columns)()),
        weights_(static_cast<size_t>(w.in_features) * static_cast<size_t>(round_up(w.out_features, panel_)),
                 Pages::huge),
        bias_(static_cast<size_t>(w.out_features)) {
    pack(w);
    if (w.bias == nullptr) {
      std::ranges::fill(bias_.span(), 0.0F);
    } else {
      std::copy_n(w.bias, w.out_features, bias_.data());
    }
  }

  void run(const GemmInput& x, int64_t rows, const GemmOutput& out, GemmScratch& scratch) const override {
    const Panels<Weight> panels{weights_.data(), bias_.data(), in_features(), out_features()};
    if constexpr (std::is_same_v<Weight, float>) {
      HWY_DYNAMIC_DISPATCH(multiply_fp32)(panels, x, rows, out, scratch);
    } else {
      HWY_DYNAMIC_DISPATCH(multiply_bf16)(panels, x, rows, out, scratch);
    }
  }

 private:
  void pack(const GemmWeights& w) {
    Weight* to = weights_.data();
    for (int n = 0; n < w.out_features; n += column_block) {
      const int end = std::min(n + column_block, w.out_features);
      for (int k = 0; k < w.in_features; k += depth_block) {
        const int depth = std::min(depth_block, w.in_features - k);
        for (int c = n; c < end; c += panel_) to = pack_panel(w, c, k, depth, to);
      }
    }
  }

  /// Columns beyond the last are zero.
  Weight* pack_panel(const GemmWeights& w, int first_column, int k, int depth, Weight* to) const {
    std::fill_n(to, panel_ * depth, Weight{});
    const int columns = std::min(panel_, w.out_features - first_column);
    for (int c = 0; c < columns; ++c) {
      const float* from = w.weight + static_cast<int64_t>(first_column + c) * w.in_features + k;
      for (int i = 0; i < depth; ++i) to[i * panel_ + c] = stored_as(from[i], Weight{});
    }
    return to + panel_ * depth;
  }

  int panel_;
  AlignedArray<Weight> weights_;
  AlignedBuffer bias_;
};

}  // namespace

std::unique_ptr<const PackedGemm> pack_panel_gemm(const GemmWeights& weights) {
  return std::make_unique<PanelGemm<float>>(weights);
}

std::unique_ptr<const PackedGemm> pack_bf16_panel_gemm(const GemmWeights& weights) {
  return std::make_unique<PanelGemm<uint16_t>>(weights);
}

}  // namespace tutti::cpu
#endif
