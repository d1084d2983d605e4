#include "cache/stream_index.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>

#include "tests/cache/throws.hpp"

namespace tutti {
namespace {

constexpr StreamId lowest = std::numeric_limits<StreamId>::min();
constexpr StreamId highest = std::numeric_limits<StreamId>::max();

TEST(StreamIndex, GivesEachStreamARowOfItsOwnWhateverItsId) {
  StreamIndex index(4);
  std::set<int> rows;
  for (const StreamId id : {lowest, StreamId{0}, StreamId{3}, highest}) {
    const int row = index.insert("test", id);
    EXPECT_EQ(index.at("test", id), row);
    rows.insert(row);
  }
  EXPECT_THAT(rows, testing::ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(index.size(), 4);
  EXPECT_EQ(index.num_free(), 0);
}

TEST(StreamIndex, GivesOutTheRowClosedLast) {
  StreamIndex index(3);
  for (StreamId id = 0; id < 3; ++id) index.insert("test", id);
  const int first = index.erase("test", 1);
  const int last = index.erase("test", 0);
  EXPECT_EQ(index.insert("test", 77), last);
  EXPECT_EQ(index.insert("test", 78), first);
  EXPECT_FALSE(index.contains(1));
  EXPECT_TRUE(index.contains(77));
}

TEST(StreamIndex, RefusesADuplicate) {
  StreamIndex index(2);
  index.insert("test", 5);
  expect_throws<std::invalid_argument>([&] { index.insert("caller", 5); }, "caller", "stream 5", "already");
  EXPECT_EQ(index.size(), 1);
}

TEST(StreamIndex, IsExhaustedWhenEveryRowIsTaken) {
  StreamIndex index(1);
  index.insert("test", 5);
  expect_throws<PoolExhausted>([&] { index.insert("caller", 6); }, "caller", "requested 1", "0 of 1");
}

TEST(StreamIndex, DoesNotKnowAStreamThatWasClosed) {
  StreamIndex index(1);
  index.insert("test", 5);
  index.erase("test", 5);
  expect_throws<UnknownStream>([&] { (void)index.at("caller", 5); }, "caller", "stream 5");
  expect_throws<UnknownStream>([&] { index.erase("caller", 5); }, "caller", "stream 5");
}

TEST(StreamIndex, FindsWhatAMapFindsAfterAnyOpeningAndClosing) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
  // Ids that share most of their bits, as slots and generations do.
  const auto some_id = [&] { return (StreamId{below(8)} << 32) | below(8); };
  for (const int capacity : {1, 3, 16}) {
    StreamIndex index(capacity);
    std::map<StreamId, int> model;
    for (int i = 0; i < 20000; ++i) {
      const StreamId id = some_id();
      if (model.contains(id)) {
        ASSERT_EQ(index.erase("test", id), model[id]);
        model.erase(id);
      } else if (std::ssize(model) < capacity) {
        const int row = index.insert("test", id);
        for (const auto& [other, taken] : model) ASSERT_NE(row, taken);
        model[id] = row;
      }
      ASSERT_EQ(index.size(), std::ssize(model));
      const StreamId probed = some_id();
      ASSERT_EQ(index.contains(probed), model.contains(probed));
      for (const auto& [open, row] : model) ASSERT_EQ(index.at("test", open), row);
    }
  }
}

TEST(StreamIndex, RefusesToHoldNoStream) { EXPECT_THROW(StreamIndex(0), std::invalid_argument); }

}  // namespace
}  // namespace tutti
