// What the CPU kernels share, compiled once per instruction set: included by kernel sources after Highway's
// foreach_target.h, hence the toggled guard instead of #pragma once.
#if defined(TUTTI_GPU_CPU_SIMD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_GPU_CPU_SIMD_INL_HPP
#undef TUTTI_GPU_CPU_SIMD_INL_HPP
#else
#define TUTTI_GPU_CPU_SIMD_INL_HPP
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The first min(n, lanes) values at p, zeros after them. Never reads past p + n, which masked loads may do
/// on instruction sets that emulate them.
template <class D>
HWY_INLINE hn::Vec<D> load_first(D d, const float* HWY_RESTRICT p, size_t n) {
  if (n >= hn::Lanes(d)) return hn::LoadU(d, p);
  HWY_ALIGN float padded[hn::MaxLanes(D())] = {};
  std::copy_n(p, n, padded);
  return hn::Load(d, padded);
}

/// Writes the first min(n, lanes) values to p.
template <class D>
HWY_INLINE void store_first(D d, hn::Vec<D> v, float* HWY_RESTRICT p, size_t n) {
  if (n >= hn::Lanes(d)) return hn::StoreU(v, d, p);
  HWY_ALIGN float padded[hn::MaxLanes(D())];
  hn::Store(v, d, padded);
  std::copy_n(padded, n, p);
}

/// Sum of term(v) over vectors v of the n values at x, in an order that depends on n alone.
template <class D, class Term>
HWY_INLINE float sum_over(D d, const float* HWY_RESTRICT x, size_t n, Term term) {
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  size_t c = 0;
  for (; c + 4 * lanes <= n; c += 4 * lanes) {
    s0 = hn::Add(s0, term(hn::LoadU(d, x + c)));
    s1 = hn::Add(s1, term(hn::LoadU(d, x + c + lanes)));
    s2 = hn::Add(s2, term(hn::LoadU(d, x + c + 2 * lanes)));
    s3 = hn::Add(s3, term(hn::LoadU(d, x + c + 3 * lanes)));
  }
  for (; c + lanes <= n; c += lanes) s0 = hn::Add(s0, term(hn::LoadU(d, x + c)));
  if (c < n) {
    const auto last = term(load_first(d, x + c, n - c));
    s1 = hn::Add(s1, hn::IfThenElseZero(hn::FirstN(d, n - c), last));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

/// y = post(gamma * (x - mean) / sqrt(var + eps) + beta) over one row of n values. y may be x.
template <class D, class Post>
HWY_INLINE void normalize_row(D d, const float* x, size_t n, const float* gamma, const float* beta, float eps,
                              float* y, Post post) {
  const size_t lanes = hn::Lanes(d);
  const float sum = sum_over(d, x, n, [](auto v) HWY_ATTR { return v; });
  const auto mean = hn::Set(d, sum / static_cast<float>(n));
  const float squares = sum_over(d, x, n, [mean](auto v) HWY_ATTR {
    const auto centred = hn::Sub(v, mean);
    return hn::Mul(centred, centred);
  });
  const auto istd = hn::Set(d, 1.0F / std::sqrt(squares / static_cast<float>(n) + eps));
  for (size_t c = 0; c < n; c += lanes) {
    const auto unit = hn::Mul(hn::Sub(load_first(d, x + c, n - c), mean), istd);
    const auto scaled = hn::MulAdd(unit, load_first(d, gamma + c, n - c), load_first(d, beta + c, n - c));
    store_first(d, post(scaled), y + c, n - c);
  }
}

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
