#include "gpu/cpu/row_quantizer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/row_quantizer.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "gpu/cpu/simd-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {

using Floats = hn::CappedTag<float, code_block>;

/// Least and largest value with 0 between them.
struct Range {
  float low;
  float high;
};

/// NaN when a value is not finite: minimum and maximum may lose a NaN, x * 0 does not.
Range range_of(const float* x, size_t n) {
  const Floats d;
  const auto zero = hn::Zero(d);
  auto low = zero;
  auto high = zero;
  auto probe = zero;
  for (size_t c = 0; c < n; c += hn::Lanes(d)) {
    const auto v = load_first(d, x + c, n - c);
    low = hn::Min(low, v);
    high = hn::Max(high, v);
    probe = hn::Add(probe, hn::Mul(v, zero));
  }
  if (std::isnan(hn::GetLane(hn::SumOfLanes(d, probe)))) {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    return {nan, nan};
  }
  return {hn::GetLane(hn::MinOfLanes(d, low)), hn::GetLane(hn::MaxOfLanes(d, high))};
}

RowCodes quantize(const float* x, int count, uint8_t* codes) {
  const auto n = static_cast<size_t>(count);
  const auto [low, high] = range_of(x, n);
  const float range = high - low;
  // Below, the reciprocal of the scale would overflow; so small a row is nothing beside any bias.
  constexpr float smallest = 1e-30F;
  if (!(range >= smallest && range <= std::numeric_limits<float>::max())) {
    std::fill_n(codes, (count + code_block - 1) / code_block * code_block, uint8_t{0});
    return {range < smallest ? 0.0F : std::numeric_limits<float>::quiet_NaN(), 0};
  }
  constexpr float levels = 255;
  const float inverse = levels / range;
  const auto zero = static_cast<int32_t>(std::nearbyint(-low * inverse));

  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const hn::Rebind<uint8_t, Floats> bytes;
  for (size_t c = 0; c < n; c += hn::Lanes(d)) {
    const auto steps = hn::NearestInt(hn::Mul(load_first(d, x + c, n - c), hn::Set(d, inverse)));
    hn::StoreU(hn::DemoteTo(bytes, hn::Add(steps, hn::Set(di, zero))), bytes, codes + c);  // saturates
  }
  return {range / levels, zero};
}

}  // namespace
}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {

HWY_EXPORT(quantize);
RowCodes quantize_row(const float* x, int n, uint8_t* codes) {
  return HWY_DYNAMIC_DISPATCH(quantize)(x, n, codes);
}

}  // namespace tutti::cpu
#endif
