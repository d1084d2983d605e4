#include "gpu/cpu/epilogue.hpp"

#include "gpu/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/epilogue.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
//
#include "gpu/cpu/activation-inl.hpp"
#include "gpu/cpu/simd-inl.hpp"

#ifndef TUTTI_GPU_CPU_EPILOGUE_ONCE
#define TUTTI_GPU_CPU_EPILOGUE_ONCE
namespace tutti::cpu {

/// Sums and where they go. All pointers are at the block's first row and column.
struct EpilogueBlock {
  const float* acc;
  int64_t acc_stride;
  float* y;
  const float* residual;
  int64_t y_stride;
  const float* bias;
  int64_t rows;
  int columns;
};

}  // namespace tutti::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Vec = hn::Vec<Floats>;

template <Activation kActivation>
HWY_INLINE Vec activate(Vec x) {
  const Floats d;
  if constexpr (kActivation == Activation::relu) return relu(d, x);
  if constexpr (kActivation == Activation::swish) return swish(d, x);
  return x;
}

template <Activation kActivation, bool kResidual>
void epilogue_rows(const EpilogueBlock& block, float scale) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const size_t columns = static_cast<size_t>(block.columns);
  const Vec factor = hn::Set(d, scale);
  for (int64_t r = 0; r < block.rows; ++r) {
    const float* acc = block.acc + r * block.acc_stride;
    float* y = block.y + r * block.y_stride;
    const float* residual = kResidual ? block.residual + r * block.y_stride : nullptr;
    for (size_t c = 0; c < columns; c += lanes) {
      const size_t left = columns - c;
      const Vec sum = hn::Add(load_first(d, acc + c, left), load_first(d, block.bias + c, left));
      Vec v = hn::Mul(factor, activate<kActivation>(sum));
      if constexpr (kResidual) v = hn::Add(load_first(d, residual + c, left), v);
      store_first(d, v, y + c, left);
    }
  }
}

template <Activation kActivation>
void epilogue_activated(const EpilogueBlock& block, float scale) {
  block.residual == nullptr ? epilogue_rows<kActivation, false>(block, scale)
                            : epilogue_rows<kActivation, true>(block, scale);
}

void epilogue(const EpilogueBlock& block, Activation activation, float scale) {
  switch (activation) {
    case Activation::none:
      return epilogue_activated<Activation::none>(block, scale);
    case Activation::relu:
      return epilogue_activated<Activation::relu>(block, scale);
    case Activation::swish:
      return epilogue_activated<Activation::swish>(block, scale);
  }
}

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {

HWY_EXPORT(epilogue);
void apply_epilogue(const FinishedSums& sums, const float* bias, int out_features, const GemmOutput& out) {
  const int64_t at = sums.first_row * out_features + sums.first_column;
  const EpilogueBlock block{.acc = sums.acc,
                            .acc_stride = sums.acc_stride,
                            .y = out.y + at,
                            .residual = out.residual == nullptr ? nullptr : out.residual + at,
                            .y_stride = out_features,
                            .bias = bias + sums.first_column,
                            .rows = sums.rows,
                            .columns = sums.columns};
  HWY_DYNAMIC_DISPATCH(epilogue)(block, out.activation, out.scale);
}

}  // namespace tutti::cpu
#endif
