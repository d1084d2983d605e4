// Activations on Highway vectors, shared by the kernels that apply them. Included by files that are compiled
// once per instruction set, after hwy/highway.h, hence the toggled guard.
#if defined(TUTTI_GPU_CPU_ACTIVATION_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_GPU_CPU_ACTIVATION_INL_HPP
#undef TUTTI_GPU_CPU_ACTIVATION_INL_HPP
#else
#define TUTTI_GPU_CPU_ACTIVATION_INL_HPP
#endif

#include "gpu/cpu/exp-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// max(x, 0). A NaN stays a NaN, so that a stream whose numbers have gone wrong can be recognised by its
/// output.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V relu(D d, V x) {
  const V zero = hn::Zero(d);
  return hn::IfThenElse(hn::Lt(x, zero), zero, x);
}

/// 1 / (1 + exp(-x)).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V x) {
  // By exp(-|x|), which cannot overflow: 1 / (1 + e) for positive x, e / (1 + e) for negative.
  const V one = hn::Set(d, 1.0F);
  const V e = exp_nonpositive(d, hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

/// x / (1 + exp(-x)).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V swish(D d, V x) {
  return hn::Mul(x, sigmoid(d, x));
}

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
