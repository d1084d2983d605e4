#include <gmock/gmock.h>

#include <stdexcept>

#include "audio/fbank.hpp"

namespace tutti {
namespace {

TEST(FbankOptions, CountsWholeFramesOnly) {
  const FbankOptions options;
  EXPECT_EQ(options.frame_length(), 400);
  EXPECT_EQ(options.frame_shift(), 160);
  EXPECT_EQ(options.fft_size(), 512);
  EXPECT_EQ(options.frames(0), 0);
  EXPECT_EQ(options.frames(399), 0);
  EXPECT_EQ(options.frames(400), 1);
  EXPECT_EQ(options.frames(559), 1);
  EXPECT_EQ(options.frames(560), 2);
  EXPECT_EQ(options.frames(int64_t{1} << 40), ((int64_t{1} << 40) - 400) / 160 + 1);
}

TEST(FbankTables, WindowIsSymmetricAndZeroAtItsEnds) {
  const FbankTables tables{FbankOptions{}};
  ASSERT_EQ(tables.window.size(), 400U);
  EXPECT_EQ(tables.window.front(), 0.0F);
  EXPECT_GT(tables.window[199], 0.9999F);
  for (size_t n = 0; n < 200; ++n) EXPECT_NEAR(tables.window[n], tables.window[399 - n], 1e-6F) << n;
}

TEST(FbankTables, FiltersRiseToOneAndStopShortOfNyquist) {
  const FbankTables tables{FbankOptions{}};
  ASSERT_EQ(tables.filters.size(), 80U);
  int previous = 0;
  for (const auto& filter : tables.filters) {
    EXPECT_GE(filter.first_bin, previous);
    previous = filter.first_bin;
    ASSERT_FALSE(filter.weights.empty());
    EXPECT_LE(filter.first_bin + static_cast<int>(filter.weights.size()), 256);
    for (const float weight : filter.weights) {
      EXPECT_GT(weight, 0.0F);
      EXPECT_LE(weight, 1.0F);
    }
  }
}

TEST(FbankTables, NeighbouringFiltersAddUpToOne) {
  const FbankTables tables{FbankOptions{}};
  std::vector<float> sums(256);
  for (const auto& filter : tables.filters) {
    for (size_t i = 0; i < filter.weights.size(); ++i) {
      sums[static_cast<size_t>(filter.first_bin) + i] += filter.weights[i];
    }
  }
  // Between the centres of the first and the last filter every frequency lies on two slopes.
  for (size_t bin = 3; bin < 247; ++bin) EXPECT_NEAR(sums[bin], 1.0F, 1e-5F) << bin;
}

TEST(FbankTables, RefusesImpossibleOptions) {
  const auto refuses = [](auto change) {
    FbankOptions options;
    change(options);
    EXPECT_THROW(FbankTables{options}, std::invalid_argument);
  };
  refuses([](FbankOptions& o) { o.sample_rate = 0; });
  refuses([](FbankOptions& o) { o.frame_length_ms = 0; });
  refuses([](FbankOptions& o) { o.frame_shift_ms = 0; });
  refuses([](FbankOptions& o) { o.frame_shift_ms = 26; });
  refuses([](FbankOptions& o) { o.num_mel_bins = 0; });
  refuses([](FbankOptions& o) { o.num_mel_bins = 257; });
  refuses([](FbankOptions& o) { o.low_freq = -1; });
  refuses([](FbankOptions& o) { o.high_freq = 8001; });
  refuses([](FbankOptions& o) { o.high_freq = 20; });
}

}  // namespace
}  // namespace tutti
