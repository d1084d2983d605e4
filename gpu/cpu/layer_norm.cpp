#include "gpu/cpu/layer_norm.hpp"

#include "gpu/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/layer_norm.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "gpu/cpu/simd-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {

void layer_norm_rows(const float* x, size_t rows, size_t cols, const float* gamma, const float* beta,
                     float eps, float* y) {
  const hn::ScalableTag<float> d;
  for (size_t r = 0; r < rows; ++r) {
    normalize_row(d, x + r * cols, cols, gamma, beta, eps, y + r * cols, [](auto v) HWY_ATTR { return v; });
  }
}

}  // namespace
}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
HWY_EXPORT(layer_norm_rows);

void layer_norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, float eps,
                const TensorView& y) {
  assert(x.shape == y.shape && gamma.shape.elements() == x.cols() && beta.shape.elements() == x.cols());
  HWY_DYNAMIC_DISPATCH(layer_norm_rows)
  (x.f32(), static_cast<size_t>(x.rows()), static_cast<size_t>(x.cols()), gamma.f32(), beta.f32(), eps,
   y.f32());
}

}  // namespace tutti::cpu
#endif  // HWY_ONCE
