#include "net/event_queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "net/text_pace.hpp"

namespace tutti {
namespace {

using Outcome = EventQueue::Outcome;

std::vector<std::string> drain(EventQueue& queue) {
  std::vector<std::string> messages;
  while (!queue.empty()) messages.push_back(queue.pop());
  return messages;
}

TEST(EventQueue, KeepsOrder) {
  EventQueue queue(4);
  EXPECT_EQ(queue.push("a", false), Outcome::queued);
  EXPECT_EQ(queue.push("b", true), Outcome::queued);
  EXPECT_EQ(queue.push("c", false), Outcome::queued);
  EXPECT_THAT(drain(queue), testing::ElementsAre("a", "b", "c"));
}

TEST(EventQueue, ReplacesAWaitingPartialByANewerOne) {
  EventQueue queue(4);
  (void)queue.push("p1", true);
  (void)queue.push("final", false);
  EXPECT_EQ(queue.push("p2", true), Outcome::superseded);
  EXPECT_THAT(drain(queue), testing::ElementsAre("final", "p2"));
}

TEST(EventQueue, GivesUpAPartialForAFinalWhenFull) {
  EventQueue queue(2);
  (void)queue.push("p", true);
  (void)queue.push("f1", false);
  EXPECT_EQ(queue.push("f2", false), Outcome::superseded);
  EXPECT_THAT(drain(queue), testing::ElementsAre("f1", "f2"));
}

TEST(EventQueue, DropsAPartialThatFindsNoRoom) {
  EventQueue queue(1);
  (void)queue.push("f", false);
  EXPECT_EQ(queue.push("p", true), Outcome::superseded);
  EXPECT_THAT(drain(queue), testing::ElementsAre("f"));
}

TEST(EventQueue, OverflowsOnceOnlyFinalsWait) {
  EventQueue queue(2);
  (void)queue.push("f1", false);
  (void)queue.push("f2", false);
  EXPECT_EQ(queue.push("f3", false), Outcome::overflow);
  EXPECT_THAT(drain(queue), testing::ElementsAre("f1", "f2"));
}

TEST(EventQueue, KeepsItsPromisesInAnyOrderOfCalls) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  EventQueue queue(5);
  std::vector<std::string> finals_in;
  std::vector<std::string> finals_out;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 3 == 0 && !queue.empty()) {
      if (std::string message = queue.pop(); message[0] == 'f') finals_out.push_back(std::move(message));
    } else {
      const bool is_partial = random() % 2 == 0;
      const std::string message = (is_partial ? "p" : "f") + std::to_string(i);
      const bool taken = queue.push(message, is_partial) != Outcome::overflow;
      if (taken && !is_partial) finals_in.push_back(message);
    }
    ASSERT_LE(queue.size(), 5U);
  }
  for (std::string& message : drain(queue)) {
    if (message[0] == 'f') finals_out.push_back(std::move(message));
  }
  EXPECT_EQ(finals_out, finals_in);
}

TEST(TextPace, LetsABurstThroughThenOnePerInterval) {
  TextPace pace;
  const TextPace::Clock::time_point now{std::chrono::hours(1)};
  for (int i = 0; i < TextPace::burst; ++i) EXPECT_EQ(pace.note(now), TextPace::Clock::duration::zero());
  EXPECT_EQ(pace.note(now), TextPace::interval);
  EXPECT_EQ(pace.note(now + TextPace::interval), TextPace::interval);
  EXPECT_EQ(pace.note(now + std::chrono::hours(1)), TextPace::Clock::duration::zero());
}

}  // namespace
}  // namespace tutti
