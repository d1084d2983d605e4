#include "app/percentiles.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Percentile, IsTheNearestRank) {
  const std::vector<double> values{50, 15, 40, 20, 35};
  EXPECT_EQ(percentile(values, 5), 15);
  EXPECT_EQ(percentile(values, 30), 20);
  EXPECT_EQ(percentile(values, 40), 20);
  EXPECT_EQ(percentile(values, 50), 35);
  EXPECT_EQ(percentile(values, 99), 50);
  EXPECT_EQ(percentile(values, 0), 15);
  EXPECT_EQ(percentile(values, 100), 50);
}

TEST(Percentile, OfNothingIsZero) { EXPECT_EQ(percentile({}, 50), 0); }

TEST(Percentiles, OfOneToAHundredAreThemselves) {
  std::vector<double> values;
  for (int i = 100; i > 0; --i) values.push_back(i);
  const Percentiles p = percentiles(values);
  EXPECT_EQ(p.p50, 50);
  EXPECT_EQ(p.p95, 95);
  EXPECT_EQ(p.p99, 99);
}

}  // namespace
}  // namespace tutti
