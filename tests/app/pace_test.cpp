#include "app/pace.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Pace::TimePoint start = Pace::TimePoint{} + seconds(1000);

TEST(Pace, SendsAFrameWhenItsLastSampleWasSpoken) {
  const Pace pace(16000, start);
  EXPECT_EQ(pace.spoken(0), start);
  EXPECT_EQ(pace.spoken(320), start + milliseconds(20));
  EXPECT_EQ(pace.spoken(16000 + 160), start + milliseconds(1010));
}

TEST(Pace, DoesNotDriftAtRatesThatMillisecondsDoNotDivide) {
  const Pace pace(44100, start);
  const int64_t frame = Pace::frame_samples(44100);
  EXPECT_EQ(frame, 882);
  EXPECT_EQ(pace.spoken(int64_t{44100} * 3600 * 24 * 30), start + std::chrono::hours(24 * 30));
}

TEST(Pace, HasFramesOfAtLeastOneSample) {
  EXPECT_EQ(Pace::frame_samples(8000), 160);
  EXPECT_EQ(Pace::frame_samples(1), 1);
}

}  // namespace
}  // namespace tutti
