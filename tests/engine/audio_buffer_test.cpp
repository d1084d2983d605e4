#include "engine/audio_buffer.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace tutti {
namespace {

using namespace std::chrono_literals;

std::vector<float> ramp(int64_t begin, int64_t count) {
  std::vector<float> samples(static_cast<size_t>(count));
  std::iota(samples.begin(), samples.end(), static_cast<float>(begin));
  return samples;
}

TEST(AudioBuffer, HoldsWhatWasAppendedAtItsPlaceOnTheClockThroughRandomUse) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  AudioBuffer buffer(1000);
  int64_t end = 0;
  int64_t begin = 0;
  for (int i = 0; i < 20000; ++i) {
    const int64_t count = std::uniform_int_distribution<int64_t>(0, 400)(random);
    const bool fits = end - begin + count <= 1000;
    ASSERT_EQ(buffer.append(ramp(end, count), Clock::now()), fits);
    if (fits) end += count;
    if (random() % 2 == 0) {
      begin = std::uniform_int_distribution<int64_t>(begin, end)(random);
      buffer.drop_until(begin);
    }
    ASSERT_EQ(buffer.begin(), begin);
    ASSERT_EQ(buffer.end(), end);
    for (int64_t s = begin; s < end; s += 97) ASSERT_EQ(*buffer.at(s), static_cast<float>(s));
  }
}

TEST(AudioBuffer, KnowsWhenTheSampleThatCompletesARangeArrived) {
  AudioBuffer buffer(1000);
  const Clock::time_point t0{1s};
  ASSERT_TRUE(buffer.append(ramp(0, 100), t0));
  ASSERT_TRUE(buffer.append(ramp(100, 100), t0 + 10ms));
  EXPECT_EQ(buffer.arrival_of(100), t0);
  EXPECT_EQ(buffer.arrival_of(101), t0 + 10ms);
  buffer.drop_until(150);
  EXPECT_EQ(buffer.arrival_of(200), t0 + 10ms);
}

TEST(AudioBuffer, ABacklogOfManyPiecesNeverLooksYoungerThanItIs) {
  AudioBuffer buffer(10000);
  const Clock::time_point t0{1s};
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(buffer.append(ramp(i * 10, 10), t0 + i * 1ms));
  for (int i = 0; i < 200; ++i) EXPECT_LE(buffer.arrival_of(i * 10 + 10), t0 + i * 1ms);
  EXPECT_EQ(buffer.arrival_of(10), t0);
}

TEST(AudioBuffer, TakesNothingOfAPieceThatDoesNotFit) {
  AudioBuffer buffer(10);
  ASSERT_TRUE(buffer.append(ramp(0, 8), {}));
  EXPECT_FALSE(buffer.append(ramp(8, 3), {}));
  EXPECT_EQ(buffer.end(), 8);
}

}  // namespace
}  // namespace tutti
