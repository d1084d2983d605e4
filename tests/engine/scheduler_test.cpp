#include "engine/scheduler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

Candidate live(int slot, int deadline_ms) {
  return {slot, Clock::time_point(deadline_ms * 1ms), StreamClass::live};
}
Candidate background(int slot, int deadline_ms) {
  return {slot, Clock::time_point(deadline_ms * 1ms), StreamClass::background};
}

TickLanes lanes(int most) { return {.most = most, .background = most}; }

std::vector<int> slots_of(std::span<const Candidate> picked) {
  std::vector<int> slots;
  for (const Candidate& c : picked) slots.push_back(c.slot);
  return slots;
}

TEST(Scheduler, TakesTheEarliestDeadlinesOfLiveStreams) {
  Scheduler scheduler(10);
  std::vector<Candidate> candidates = {live(0, 30), live(1, 10), live(2, 20)};
  EXPECT_THAT(slots_of(scheduler.pick(candidates, lanes(2))), ElementsAre(1, 2));
}

TEST(Scheduler, BreaksTiesBySlot) {
  Scheduler scheduler(10);
  std::vector<Candidate> candidates = {live(2, 10), live(0, 10), live(1, 10)};
  EXPECT_THAT(slots_of(scheduler.pick(candidates, lanes(2))), ElementsAre(0, 1));
}

TEST(Scheduler, BackgroundLeavesATickToALiveStream) {
  Scheduler scheduler(10);
  std::vector<Candidate> candidates = {background(5, 1), live(0, 99), background(6, 2), background(7, 3)};
  EXPECT_THAT(slots_of(scheduler.pick(candidates, lanes(3))), ElementsAre(0));
}

TEST(Scheduler, BackgroundHasTheTicksThatNoLiveStreamIsReadyFor) {
  Scheduler scheduler(10);
  std::vector<Candidate> candidates = {background(5, 1), background(6, 2), background(7, 3)};
  EXPECT_THAT(slots_of(scheduler.pick(candidates, {.most = 3, .background = 2})), ElementsAre(5, 6));
}

TEST(Scheduler, BackgroundRestsWithoutALaneButKeepsItsShareOfLiveTicks) {
  Scheduler scheduler(10, 0.5);
  std::vector<Candidate> uploads = {background(5, 1)};
  EXPECT_THAT(scheduler.pick(uploads, {.most = 4, .background = 0}), testing::IsEmpty());
  std::vector<Candidate> mixed = {background(5, 1), live(0, 9)};
  EXPECT_THAT(slots_of(scheduler.pick(mixed, {.most = 4, .background = 0})), ElementsAre(0, 5));
}

TEST(Scheduler, BackgroundGetsItsShareUnderLiveOverload) {
  Scheduler scheduler(100, 0.1);
  int background_lanes = 0;
  for (int tick = 0; tick < 100; ++tick) {
    std::vector<Candidate> candidates = {background(90, 0), background(91, 0)};
    for (int i = 0; i < 50; ++i) candidates.push_back(live(i, i));
    const auto picked = scheduler.pick(candidates, lanes(8));
    EXPECT_EQ(picked.size(), 8U);
    for (const Candidate& c : picked) background_lanes += c.stream_class == StreamClass::background ? 1 : 0;
  }
  EXPECT_EQ(background_lanes, 80);
}

TEST(Scheduler, ShareIsNotSavedUpWhileNoBackgroundStreamWaits) {
  Scheduler scheduler(100, 0.1);
  std::vector<Candidate> live_only = {live(0, 0), live(1, 1)};
  for (int tick = 0; tick < 100; ++tick) (void)scheduler.pick(live_only, lanes(2));
  std::vector<Candidate> mixed = {live(0, 0), live(1, 1), background(9, 0)};
  EXPECT_THAT(slots_of(scheduler.pick(mixed, lanes(2))), ElementsAre(0, 1));
}

TEST(Scheduler, NobodyStarvesWhenMoreAreReadyThanLanes) {
  Scheduler scheduler(20);
  std::vector<int> served(20);
  std::vector<int> deadline(20);
  std::iota(deadline.begin(), deadline.end(), 0);
  for (int tick = 0; tick < 100; ++tick) {
    std::vector<Candidate> candidates;
    for (int i = 0; i < 20; ++i) candidates.push_back(live(i, deadline[static_cast<size_t>(i)]));
    for (const Candidate& c : scheduler.pick(candidates, lanes(4))) {
      ++served[static_cast<size_t>(c.slot)];
      deadline[static_cast<size_t>(c.slot)] += 20;
    }
  }
  EXPECT_THAT(served, testing::Each(20));
}

TEST(BackgroundPace, RestsThreeTimesAsLongAsATickOfUploadsTook) {
  const Clock::time_point start{1s};
  BackgroundPace pace;
  EXPECT_LE(pace.rest(start), 0s);
  pace.record(start, start + 3ms);
  EXPECT_EQ(pace.rest(start + 3ms), 9ms);
  EXPECT_EQ(pace.rest(start + 11ms), 1ms);
  EXPECT_LE(pace.rest(start + 12ms), 0s);
}

TEST(LaneLimit, HoldsATickToItsBudget) {
  LaneLimit limit(16);
  EXPECT_EQ(limit.lanes(40ms), 16);
  for (int i = 0; i < 50; ++i) limit.record(16, 80ms);
  EXPECT_EQ(limit.lanes(40ms), 8);
  EXPECT_EQ(limit.lanes(1ms), 1);
  for (int i = 0; i < 50; ++i) limit.record(1, 400ms);
  EXPECT_EQ(limit.lanes(40ms), 1);
  for (int i = 0; i < 100; ++i) limit.record(8, 1us);
  EXPECT_EQ(limit.lanes(40ms), 16);
}

}  // namespace
}  // namespace tutti
