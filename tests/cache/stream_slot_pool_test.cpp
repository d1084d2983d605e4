#include "cache/stream_slot_pool.hpp"

#include <gmock/gmock.h>

#include <set>

#include "tests/cache/throws.hpp"

namespace tutti {
namespace {

TEST(StreamSlotPool, HandsOutEverySlotOnceAndThenNone) {
  StreamSlotPool slots(5);
  std::set<int> seen;
  for (int i = 0; i < 5; ++i) seen.insert(slots.allocate().value());
  EXPECT_THAT(seen, testing::ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(slots.num_free(), 0);
  EXPECT_EQ(slots.allocate(), std::nullopt);
}

TEST(StreamSlotPool, HandsOutTheSlotFreedLast) {
  StreamSlotPool slots(3);
  for (int i = 0; i < 3; ++i) (void)slots.allocate();
  slots.free(0);
  slots.free(2);
  EXPECT_EQ(slots.allocate(), 2);
  EXPECT_EQ(slots.allocate(), 0);
}

TEST(StreamSlotPool, RefusesToFreeAFreeSlot) {
  StreamSlotPool slots(2);
  slots.free(slots.allocate().value());
  expect_throws<std::invalid_argument>([&] { slots.free(0); }, "slot 0", "already free");
  EXPECT_EQ(slots.num_free(), 2);
}

TEST(StreamSlotPool, RefusesToFreeASlotItDoesNotHave) {
  StreamSlotPool slots(2);
  expect_throws<std::invalid_argument>([&] { slots.free(2); }, "slot 2", "[0, 2)");
  expect_throws<std::invalid_argument>([&] { slots.free(-1); }, "slot -1", "[0, 2)");
  EXPECT_EQ(slots.capacity(), 2);
}

TEST(StreamSlotPool, RefusesToBeEmpty) { EXPECT_THROW(StreamSlotPool(0), std::invalid_argument); }

}  // namespace
}  // namespace tutti
