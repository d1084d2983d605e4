// The formats that a decoder's K and V are stored in, as vectors. Included by files that are compiled once
// per instruction set, after hwy/highway.h, hence the toggled guard. The values are those of gpu/bfloat16.hpp
// and gpu/float8.hpp.
#if defined(TUTTI_GPU_CPU_KV_FORMAT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_GPU_CPU_KV_FORMAT_INL_HPP
#undef TUTTI_GPU_CPU_KV_FORMAT_INL_HPP
#else
#define TUTTI_GPU_CPU_KV_FORMAT_INL_HPP
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "gpu/cpu/simd-inl.hpp"
#include "gpu/float8.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {

/// Writes the first min(n, lanes) of the whole numbers, each of which fits in a Code.
template <class Code, class D, class V>
HWY_INLINE void store_codes(D d, V values, Code* HWY_RESTRICT p, size_t n) {
  const hn::Rebind<Code, D> narrow;
  const auto codes = hn::DemoteTo(narrow, values);
  if (n >= hn::Lanes(d)) return hn::StoreU(codes, narrow, p);
  HWY_ALIGN Code padded[hn::MaxLanes(D())];
  hn::Store(codes, narrow, padded);
  std::copy_n(padded, n, p);
}

/// The first min(n, lanes) codes as whole numbers, zeros after them.
template <class D, class Code>
HWY_INLINE auto load_codes(D d, const Code* HWY_RESTRICT p, size_t n) {
  const hn::Rebind<Code, D> narrow;
  const hn::RebindToSigned<D> di;
  if (n >= hn::Lanes(d)) return hn::PromoteTo(di, hn::LoadU(narrow, p));
  HWY_ALIGN Code padded[hn::MaxLanes(D())] = {};
  std::copy_n(p, n, padded);
  return hn::PromoteTo(di, hn::Load(narrow, padded));
}

template <class D>
HWY_INLINE void encode_bfloat16(D d, const float* x, size_t n, uint16_t* out) {
  const hn::RebindToSigned<D> di;
  const auto infinity = hn::Set(di, static_cast<int32_t>(float8_bits::infinity));
  for (size_t c = 0; c < n; c += hn::Lanes(d)) {
    const auto bits = hn::BitCast(di, load_first(d, x + c, n - c));
    const auto to_even = hn::And(hn::ShiftRight<16>(bits), hn::Set(di, 1));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(di, 0x7FFF)), to_even);
    const auto is_nan = hn::Gt(hn::And(bits, hn::Set(di, 0x7FFFFFFF)), infinity);
    const auto upper = hn::IfThenElse(is_nan, hn::Or(bits, hn::Set(di, 0x400000)), rounded);
    const auto code = hn::And(hn::ShiftRight<16>(upper), hn::Set(di, 0xFFFF));
    store_codes(d, code, out + c, n - c);
  }
}

template <class D>
HWY_INLINE void decode_bfloat16(D d, const uint16_t* codes, size_t n, float* out) {
  for (size_t c = 0; c < n; c += hn::Lanes(d)) {
    store_first(d, hn::BitCast(d, hn::ShiftLeft<16>(load_codes(d, codes + c, n - c))), out + c, n - c);
  }
}

/// The vector's own scale, which is returned, is that of float8_e4m3_scale.
template <class D>
HWY_INLINE float encode_float8(D d, const float* x, size_t n, uint8_t* codes) {
  using namespace float8_bits;
  const hn::RebindToSigned<D> di;
  const auto magnitude_mask = hn::Set(di, 0x7FFFFFFF);
  auto largest_bits = hn::Zero(di);
  for (size_t c = 0; c < n; c += hn::Lanes(d)) {
    const auto bits = hn::BitCast(di, load_first(d, x + c, n - c));
    largest_bits = hn::Max(largest_bits, hn::And(bits, magnitude_mask));
  }
  const float scale = float8_e4m3_scale(std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(di, largest_bits))));
  const auto inverse = hn::Set(d, 1.0F / scale);  // of a power of two: exact
  const auto rounder = hn::Set(d, subnormal_rounder);
  for (size_t c = 0; c < n; c += hn::Lanes(d)) {
    const auto bits = hn::BitCast(di, hn::Mul(load_first(d, x + c, n - c), inverse));
    const auto magnitude = hn::And(bits, magnitude_mask);
    const auto bounded = hn::Min(magnitude, hn::Set(di, static_cast<int32_t>(largest)));
    const auto subnormal =
        hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, bounded), rounder)), hn::BitCast(di, rounder));
    const auto to_even = hn::And(hn::ShiftRight<dropped>(bounded), hn::Set(di, 1));
    const auto half = hn::Set(di, (1 << (dropped - 1)) - 1);
    const auto normal = hn::Sub(hn::ShiftRight<dropped>(hn::Add(hn::Add(bounded, half), to_even)),
                                hn::Set(di, static_cast<int32_t>(rebias)));
    auto code =
        hn::IfThenElse(hn::Lt(bounded, hn::Set(di, static_cast<int32_t>(least_normal))), subnormal, normal);
    code = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, static_cast<int32_t>(infinity))), hn::Set(di, 0x7F),
                          code);
    const auto sign = hn::And(hn::ShiftRight<24>(bits), hn::Set(di, 0x80));
    store_codes(d, hn::Or(code, sign), codes + c, n - c);
  }
  return scale;
}

template <class D>
HWY_INLINE void decode_float8(D d, const uint8_t* codes, float scale, size_t n, float* out) {
  using namespace float8_bits;
  const hn::RebindToSigned<D> di;
  const auto scales = hn::Set(d, scale);
  for (size_t c = 0; c < n; c += hn::Lanes(d)) {
    const auto code = load_codes(d, codes + c, n - c);
    const auto magnitude = hn::And(code, hn::Set(di, 0x7F));
    const auto normal = hn::ShiftLeft<dropped>(hn::Add(magnitude, hn::Set(di, static_cast<int32_t>(rebias))));
    const auto subnormal = hn::BitCast(di, hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 0x1p-9F)));
    auto bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 8)), subnormal, normal);
    bits = hn::IfThenElse(hn::Eq(magnitude, hn::Set(di, 0x7F)), hn::Set(di, 0x7FC00000), bits);
    bits = hn::Or(bits, hn::ShiftLeft<24>(hn::And(code, hn::Set(di, 0x80))));
    store_first(d, hn::Mul(hn::BitCast(d, bits), scales), out + c, n - c);
  }
}

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
