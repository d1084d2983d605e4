#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "gpu/tensor.hpp"

namespace tutti {

/// Seeded random test data. Keep its `trace()` in a SCOPED_TRACE, so that a failure names the seed.
class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed), engine_(seed) {}
  [[nodiscard]] std::string trace() const { return "seed " + std::to_string(seed_); }

  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  template <size_t n>
  int pick(const int (&values)[n]) {
    return values[between(0, static_cast<int>(n) - 1)];
  }
  float normal(float deviation = 1.0F) { return std::normal_distribution<float>(0.0F, deviation)(engine_); }
  Tensor tensor(const Shape& shape, float deviation = 1.0F) {
    Tensor t = host_tensor(DType::f32, shape);
    for (float& x : values(t)) x = normal(deviation);
    return t;
  }
  /// 0 ... n-1 in random order.
  std::vector<int32_t> permutation(int n) {
    std::vector<int32_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), engine_);
    return order;
  }

  static std::span<float> values(const TensorView& t) {
    return {t.f32(), static_cast<size_t>(t.shape.elements())};
  }

 private:
  uint64_t seed_;
  std::mt19937_64 engine_;
};

/// EXPECT_TRUE(same_bits(a, b)): equal as memory, so that it also tells 0 from -0 and compares NaN.
inline testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " values against " << b.size();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return testing::AssertionFailure() << "value " << i << ": " << a[i] << " against " << b[i];
    }
  }
  return testing::AssertionSuccess();
}

/// EXPECT_TRUE(close_to(actual, expected, tolerance)): |actual - expected| <= tolerance * max(1, |expected|).
inline testing::AssertionResult close_to(std::span<const float> actual, std::span<const double> expected,
                                         double tolerance) {
  if (actual.size() != expected.size()) {
    return testing::AssertionFailure() << actual.size() << " values against " << expected.size();
  }
  for (size_t i = 0; i < actual.size(); ++i) {
    const double limit = tolerance * std::max(1.0, std::abs(expected[i]));
    if (!(std::abs(static_cast<double>(actual[i]) - expected[i]) <= limit)) {
      return testing::AssertionFailure()
             << "value " << i << ": " << actual[i] << ", expected " << expected[i] << " +- " << limit;
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace tutti
