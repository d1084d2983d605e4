#include "actors/credit.hpp"

#include <gtest/gtest.h>

#include <random>

#include "config/result.hpp"

namespace tutti {
namespace {

TEST(Credit, StartsWithTheWindowInBytesOfTheClient) {
  const Credit stereo_phone(4000, 8000, 16000, 4);
  EXPECT_EQ(stereo_phone.initial_bytes(), 4 * 8000 * 4);
  EXPECT_EQ(stereo_phone.window_samples(), 4 * 16000);
}

TEST(Credit, ReturnsExactlyWhatWasConsumedHoweverItIsCut) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const int rate : {8000, 11025, 16000, 22050, 44100, 48000}) {
    Credit credit(4000, rate, 16000, 2);
    int64_t consumed = 0;
    int64_t returned = 0;
    for (int i = 0; i < 2000; ++i) {
      const int64_t samples = std::uniform_int_distribution<int64_t>(0, 12000)(random);
      consumed += samples;
      const int64_t bytes = credit.consume(samples);
      ASSERT_GE(bytes, 0);
      returned += bytes;
      ASSERT_EQ(returned, consumed * rate / 16000 * 2);
    }
  }
}

TEST(Credit, DoesNotOverflowInYears) {
  Credit credit(4000, 384000, 16000, 256);
  const int64_t ten_years = int64_t{10} * 365 * 86400 * 16000;
  EXPECT_EQ(credit.consume(ten_years), ten_years * 24 * 256);
  EXPECT_EQ(credit.consume(16000), int64_t{384000} * 256);
}

TEST(Credit, RefusesAWindowInWhichNoChunkCouldComplete) {
  EXPECT_NO_THROW(check_credit(4000, 640, 20000));
  EXPECT_NO_THROW(check_credit(1281, 640, 20000));
  EXPECT_THROW(check_credit(1280, 640, 20000), SetupError);
}

TEST(Credit, RefusesAWindowThatTheEngineCannotBuffer) {
  EXPECT_NO_THROW(check_credit(19800, 640, 20000));
  EXPECT_THROW(check_credit(19801, 640, 20000), SetupError);
}

}  // namespace
}  // namespace tutti
