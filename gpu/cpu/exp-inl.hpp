// The exponential of the softmaxes and the sigmoid. Included by files that are compiled once per
// instruction set, after hwy/highway.h, hence the toggled guard.
#if defined(TUTTI_GPU_CPU_EXP_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_GPU_CPU_EXP_INL_HPP
#undef TUTTI_GPU_CPU_EXP_INL_HPP
#else
#define TUTTI_GPU_CPU_EXP_INL_HPP
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// e^x for x <= 0, to 1 ulp; below -87 it is e^-87, which is nothing beside a softmax's largest term of 1.
/// About half the work of Highway's Exp, which also serves overflow and subnormal results. A NaN stays a NaN.
/// Range reduction and polynomial are those of Cephes' expf.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_nonpositive(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V least = hn::Set(d, -87.0F);
  x = hn::IfThenElse(hn::Lt(x, least), least, x);  // not Max, which may lose a NaN
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504F)));
  // ln 2 in two parts, of which the first is exact in n times it.
  const V r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), hn::NegMulAdd(n, hn::Set(d, 0.693359375F), x));
  V p = hn::Set(d, 1.9875691500e-4F);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1F));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1F));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0F));
  const auto exponent = hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(exponent)));
}

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
