#include "gpu/cpu/fbank.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cfloat>
#include <cmath>
#include <numbers>

#include "gpu/cpu/targets.hpp"
#include "gpu/digit_reversed.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/fbank.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "gpu/cpu/simd-inl.hpp"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

#ifndef TUTTI_GPU_CPU_FBANK_ONCE
#define TUTTI_GPU_CPU_FBANK_ONCE
namespace tutti::cpu {

/// The most frames one group computes: the lanes of the widest vector.
inline constexpr size_t max_frames = 16;

/// Where one lane of a group reads its samples and writes its features. Spare lanes repeat the last frame.
struct FbankLane {
  const float* samples;
  float* out;
};

}  // namespace tutti::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {

using D = hn::CappedTag<float, max_frames>;
using V = hn::Vec<D>;
constexpr size_t vector_lanes = hn::MaxLanes(D());

struct Complex {
  V re, im;
};

HWY_INLINE Complex load(const float* z) {
  const D d;
  return {hn::LoadU(d, z), hn::LoadU(d, z + vector_lanes)};
}
HWY_INLINE void store(Complex v, float* z) {
  const D d;
  hn::StoreU(v.re, d, z);
  hn::StoreU(v.im, d, z + vector_lanes);
}
HWY_INLINE Complex add(Complex a, Complex b) { return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)}; }
HWY_INLINE Complex sub(Complex a, Complex b) { return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)}; }
/// -i a
HWY_INLINE Complex turn(Complex a) { return {a.im, hn::Neg(a.re)}; }
HWY_INLINE Complex mul(Complex a, const float* root) {
  const D d;
  const V re = hn::Set(d, root[0]), im = hn::Set(d, root[1]);
  return {hn::NegMulAdd(a.im, im, hn::Mul(a.re, re)), hn::MulAdd(a.im, re, hn::Mul(a.re, im))};
}

/// Samples (n) of every lane, scaled, without DC, pre-emphasised and windowed, as rows of lanes; zeros up to
/// `size`. Row n is half of the complex number n / 2 that the transform reads.
void load_frames(const FbankTables& tables, const FbankLane* lanes, size_t size, float* x) {
  const D d;
  const auto length = tables.window.size();
  for (size_t i = 0; i < vector_lanes; ++i) {
    const float* samples = lanes[i].samples;
    for (size_t n = 0; n < length; ++n) x[n * vector_lanes + i] = samples[n];
  }
  const V scale = hn::Set(d, 32768.0F);
  V sum = hn::Zero(d);
  for (size_t n = 0; n < length; ++n) {
    const V s = hn::Mul(hn::LoadU(d, x + n * vector_lanes), scale);
    sum = hn::Add(sum, s);
    hn::StoreU(s, d, x + n * vector_lanes);
  }
  const V mean = hn::Mul(sum, hn::Set(d, 1.0F / static_cast<float>(length)));
  const V preemphasis = hn::Set(d, tables.options.preemphasis);
  V previous = hn::Sub(hn::LoadU(d, x), mean);
  for (size_t n = 0; n < length; ++n) {
    const V s = hn::Sub(hn::LoadU(d, x + n * vector_lanes), mean);
    const V emphasised = hn::Sub(s, hn::Mul(preemphasis, previous));
    hn::StoreU(hn::Mul(emphasised, hn::Set(d, tables.window[n])), d, x + n * vector_lanes);
    previous = s;
  }
  std::fill(x + length * vector_lanes, x + size * vector_lanes, 0.0F);
}

/// One radix-4 decimation-in-frequency butterfly on z[0], z[step], z[2 step], z[3 step]. `turn_by` is the
/// index of its first twiddle among the roots; the first butterfly of a block has none.
HWY_INLINE void butterfly(float* z, size_t step, const float* roots, size_t turn_by) {
  const Complex a = load(z), b = load(z + step), c = load(z + 2 * step), e = load(z + 3 * step);
  const Complex sum_ac = add(a, c), sum_be = add(b, e), dif_ac = sub(a, c), dif_be = turn(sub(b, e));
  const Complex y1 = add(dif_ac, dif_be), y2 = sub(sum_ac, sum_be), y3 = sub(dif_ac, dif_be);
  store(add(sum_ac, sum_be), z);
  store(turn_by == 0 ? y1 : mul(y1, roots + 2 * turn_by), z + step);
  store(turn_by == 0 ? y2 : mul(y2, roots + 4 * turn_by), z + 2 * step);
  store(turn_by == 0 ? y3 : mul(y3, roots + 6 * turn_by), z + 3 * step);
}

/// In-place complex transform of `points` rows of lanes; frequency k ends at order[k] (see
/// digit_reversed.hpp).
void transform(const FbankPlan& plan, float* z) {
  constexpr size_t row = 2 * vector_lanes;
  const auto points = static_cast<size_t>(plan.points());
  size_t length = points;
  for (; length >= 4; length /= 4) {
    const size_t quarter = length / 4;
    for (size_t begin = 0; begin < points; begin += length) {
      for (size_t j = 0; j < quarter; ++j) {
        // The table holds the roots of order 2 * points.
        butterfly(z + (begin + j) * row, quarter * row, plan.roots(), j * (2 * points / length));
      }
    }
  }
  if (length == 1) return;
  for (size_t i = 0; i < points; i += 2) {
    const Complex a = load(z + i * row), b = load(z + (i + 1) * row);
    store(add(a, b), z + i * row);
    store(sub(a, b), z + (i + 1) * row);
  }
}

/// Power spectrum of the real signal whose even and odd samples were the transform's real and imaginary
/// parts: X[k] = (Z[k] + conj Z[n-k]) / 2 - i w^k (Z[k] - conj Z[n-k]) / 2.
void power_spectrum(const FbankPlan& plan, const float* z, float* power) {
  const D d;
  constexpr size_t row = 2 * vector_lanes;
  const auto points = static_cast<size_t>(plan.points());
  const V half = hn::Set(d, 0.5F);
  for (size_t k = 0; k <= points; ++k) {
    const Complex a = load(z + static_cast<size_t>(plan.order()[k % points]) * row);
    const Complex b = load(z + static_cast<size_t>(plan.order()[(points - k) % points]) * row);
    const Complex even{hn::Add(a.re, b.re), hn::Sub(a.im, b.im)};
    const Complex odd = turn({hn::Sub(a.re, b.re), hn::Add(a.im, b.im)});
    const Complex x = add(even, mul(odd, plan.roots() + 2 * k));
    const V re = hn::Mul(x.re, half), im = hn::Mul(x.im, half);
    hn::StoreU(hn::MulAdd(re, re, hn::Mul(im, im)), d, power + k * vector_lanes);
  }
}

void log_mel(const FbankTables& tables, const float* power, const FbankLane* lanes, size_t frames) {
  const D d;
  const V floor = hn::Set(d, FLT_EPSILON);
  HWY_ALIGN float values[vector_lanes];
  for (size_t m = 0; m < tables.filters.size(); ++m) {
    const FbankTables::MelFilter& filter = tables.filters[m];
    const float* bins = power + static_cast<size_t>(filter.first_bin) * vector_lanes;
    V energy = hn::Zero(d);
    for (const float weight : filter.weights) {
      energy = hn::MulAdd(hn::Set(d, weight), hn::LoadU(d, bins), energy);
      bins += vector_lanes;
    }
    hn::Store(hn::Log(d, hn::Max(floor, energy)), d, values);
    for (size_t i = 0; i < frames; ++i) lanes[i].out[m] = values[i];
  }
}

size_t group_size() { return vector_lanes; }

void fbank_group(const FbankPlan& plan, const FbankLane* lanes, size_t frames, float* x) {
  const auto size = static_cast<size_t>(2 * plan.points());
  float* const power = x + size * max_frames;
  load_frames(plan.tables(), lanes, size, x);
  transform(plan, x);
  power_spectrum(plan, x, power);
  log_mel(plan.tables(), power, lanes, frames);
}

}  // namespace
}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
HWY_EXPORT(fbank_group);
HWY_EXPORT(group_size);

FbankPlan::FbankPlan(const FbankTables& tables) : tables_(tables), points_(tables.options.fft_size() / 2) {
  const int size = 2 * points_;
  for (int k = 0; k < size; ++k) {
    const double angle = -2.0 * std::numbers::pi * k / size;
    roots_.push_back(static_cast<float>(std::cos(angle)));
    roots_.push_back(static_cast<float>(std::sin(angle)));
  }
  for (int k = 0; k < points_; ++k) order_.push_back(digit_reversed(k, points_));
}

size_t FbankPlan::scratch_floats() const { return max_frames * static_cast<size_t>(3 * points_ + 1); }

void fbank(const FbankPlan& plan, std::span<const FbankJob> jobs, std::span<float> scratch) {
  assert(scratch.size() >= plan.scratch_floats());
  const FbankOptions& options = plan.tables().options;
  const auto shift = static_cast<size_t>(options.frame_shift());
  const auto mel = static_cast<size_t>(options.num_mel_bins);
  const size_t width = HWY_DYNAMIC_DISPATCH(group_size)();
  std::array<FbankLane, max_frames> lanes{};
  size_t filled = 0;
  const auto flush = [&] {
    std::fill(lanes.begin() + static_cast<std::ptrdiff_t>(filled), lanes.end(), lanes[filled - 1]);
    HWY_DYNAMIC_DISPATCH(fbank_group)(plan, lanes.data(), filled, scratch.data());
    filled = 0;
  };
  for (const FbankJob& job : jobs) {
    for (size_t f = 0; f < static_cast<size_t>(job.frames); ++f) {
      lanes[filled++] = {job.samples + f * shift, job.out + f * mel};
      if (filled == width) flush();
    }
  }
  if (filled > 0) flush();
}

}  // namespace tutti::cpu
#endif  // HWY_ONCE
