#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/cache/cache_model.hpp"
#include "tests/config/patience.hpp"

namespace tutti {
namespace {

// Over all geometries together.
size_t total_operations() { return is_in_a_hurry() ? 100'000 : 1'000'000; }

uint64_t seed() {
  if (const char* given = std::getenv("TUTTI_TEST_SEED")) return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

std::vector<Geometry> geometries() {
  std::vector<Geometry> all;
  for (const int left : {0, 1, 4, -1}) {
    for (const Geometry& g :
         {Geometry{16, 16, false, left}, Geometry{16, 16, true, left}, Geometry{8, 16, false, left},
          Geometry{4, 16, false, left}, Geometry{16, 4, false, left}, Geometry{6, 4, false, left}}) {
      all.push_back(g);
    }
  }
  const size_t plain = all.size();
  for (size_t i = 0; i < plain; ++i) {
    Geometry g = all[i];
    if (g.left == 0) continue;
    (g.left < 0 ? g.recycled : g.prefilled) = true;
    all.push_back(g);
  }
  return all;
}

class PagedCacheModel : public testing::TestWithParam<Geometry> {};

TEST_P(PagedCacheModel, HoldsTheFramesOfAPlainList) {
  const uint64_t used_seed = seed();
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(used_seed));
  CacheModel model(GetParam(), used_seed);
  const size_t operations = total_operations() / geometries().size() + 1;
  for (size_t i = 0; i < operations; ++i) {
    model.step();
    ASSERT_FALSE(HasFailure()) << "after operation " << i;
  }
  const CacheModel::Coverage& coverage = model.coverage();
  EXPECT_GT(coverage.refused_admissions, 0);
  EXPECT_GT(coverage.exhausted_batches, 0);
  EXPECT_GT(coverage.short_commits, 0);
  EXPECT_GT(coverage.padded_batches, 0);
  EXPECT_GT(coverage.dense_commits, 0);
  const bool unlimited = GetParam().left < 0 && !GetParam().recycled;
  EXPECT_EQ(coverage.at_capacity > 0, unlimited);
  EXPECT_EQ(coverage.evicted_blocks > 0, !unlimited);
}

INSTANTIATE_TEST_SUITE_P(Geometries, PagedCacheModel, testing::ValuesIn(geometries()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tutti
