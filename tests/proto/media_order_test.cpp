#include "proto/media_order.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

#include "tests/config/random_bytes.hpp"

namespace tutti::proto {
namespace {

constexpr int frame_ms = 20;
constexpr size_t frame_bytes = 160;

/// The frame with that number, from 1, whose bytes are all its number.
MediaOrder::Frame frame(int number) {
  return {.number = number,
          .timestamp_ms = int64_t{number - 1} * frame_ms,
          .payload = std::vector<std::byte>(frame_bytes, static_cast<std::byte>(number))};
}

/// What was put in order, a character a frame's length: its number, or `.` for silence.
std::string shown(const std::vector<std::byte>& audio) {
  std::string text;
  for (size_t i = 0; i < audio.size(); i += frame_bytes) {
    const int value = std::to_integer<int>(audio[i]);
    text += value == 0xff ? '.' : static_cast<char>('0' + value);
  }
  return text;
}

class Ordered {
 public:
  std::string push(MediaOrder::Frame frame) {
    is_new = order.push(std::move(frame));
    return shown(order.take());
  }
  MediaOrder order{Encoding::mulaw, 8000};
  bool is_new = false;
};

TEST(MediaOrder, PassesOnWhatComesInOrder) {
  Ordered ordered;
  EXPECT_EQ(ordered.push(frame(1)), "1");
  EXPECT_EQ(ordered.push(frame(2)), "2");
  EXPECT_EQ(ordered.push(frame(3)), "3");
}

TEST(MediaOrder, TakesANumberThatNoFrameHasForNone) {
  Ordered ordered;
  EXPECT_EQ(ordered.push(frame(1)), "1");
  for (const int64_t number : {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(),
                               int64_t{-1}, int64_t{1} << 53}) {
    MediaOrder::Frame odd = frame(2);
    odd.number = number;
    odd.timestamp_ms.reset();
    EXPECT_EQ(ordered.push(std::move(odd)), "2");
    EXPECT_TRUE(ordered.is_new);
  }
  MediaOrder::Frame next = frame(2);
  next.timestamp_ms.reset();
  EXPECT_EQ(ordered.push(std::move(next)), "2");
}

TEST(MediaOrder, WaitsForAFrameThatIsLate) {
  Ordered ordered;
  EXPECT_EQ(ordered.push(frame(1)), "1");
  EXPECT_EQ(ordered.push(frame(3)), "");
  EXPECT_EQ(ordered.push(frame(4)), "");
  EXPECT_EQ(ordered.push(frame(2)), "234");
}

TEST(MediaOrder, PutsSilenceWhereAFrameIsLost) {
  Ordered ordered;
  EXPECT_EQ(ordered.push(frame(1)), "1");
  std::string heard;
  int number = 3;
  while (heard.empty()) heard = ordered.push(frame(number++));
  // 200 ms are ten frames.
  EXPECT_EQ(heard, ".3456789:;<");
  EXPECT_EQ(ordered.push(frame(2)), "");
  EXPECT_FALSE(ordered.is_new);
}

TEST(MediaOrder, DropsWhatCameBefore) {
  Ordered ordered;
  EXPECT_EQ(ordered.push(frame(1)), "1");
  EXPECT_EQ(ordered.push(frame(1)), "");
  EXPECT_FALSE(ordered.is_new);
  EXPECT_EQ(ordered.push(frame(3)), "");
  EXPECT_TRUE(ordered.is_new);
  EXPECT_EQ(ordered.push(frame(3)), "");
  EXPECT_FALSE(ordered.is_new);
}

TEST(MediaOrder, FollowsTheTimeWhereTheNumbersAreThoseOfAllTracks) {
  Ordered ordered;
  for (int i = 0; i < 5; ++i) {
    auto next = frame(i + 1);
    next.number = 1 + 2 * i;
    EXPECT_EQ(ordered.push(std::move(next)), std::to_string(i + 1));
  }
}

TEST(MediaOrder, TakesUnevenTimesForJitter) {
  Ordered ordered;
  EXPECT_EQ(ordered.push(frame(1)), "1");
  auto late = frame(2);
  *late.timestamp_ms += 30;
  EXPECT_EQ(ordered.push(std::move(late)), "2");
  EXPECT_EQ(ordered.push(frame(3)), "3");
}

TEST(MediaOrder, FillsALongGapInSeveralCalls) {
  MediaOrder order(Encoding::mulaw, 8000);
  auto later = frame(1);
  later.timestamp_ms = 2500;
  EXPECT_TRUE(order.push(std::move(later)));
  EXPECT_EQ(order.take().size(), 8000U);
  EXPECT_EQ(order.take().size(), 8000U);
  EXPECT_EQ(order.take().size(), 4000U + frame_bytes);
  EXPECT_EQ(order.take().size(), 0U);
}

TEST(MediaOrder, GivesUpAtTheEnd) {
  Ordered ordered;
  EXPECT_EQ(ordered.push(frame(1)), "1");
  EXPECT_EQ(ordered.push(frame(4)), "");
  EXPECT_EQ(shown(ordered.order.flush()), "..4");
}

TEST(MediaOrder, DoesWithoutNumbersAndTimes) {
  Ordered ordered;
  auto bare = frame(5);
  bare.number.reset();
  bare.timestamp_ms.reset();
  EXPECT_EQ(ordered.push(bare), "5");
  EXPECT_EQ(ordered.push(bare), "5");
}

TEST(MediaOrder, PutsShuffledFramesIntoTheirPlaces) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    MediaOrder order(Encoding::mulaw, 8000);
    std::vector<std::byte> heard;
    const auto add = [&heard](const std::vector<std::byte>& audio) {
      heard.insert(heard.end(), audio.begin(), audio.end());
    };
    std::vector<int> numbers(200);
    for (int i = 0; i < 200; ++i) numbers[static_cast<size_t>(i)] = i + 1;
    for (size_t i = 0; i + 5 <= numbers.size(); i += 5) {
      std::shuffle(numbers.begin() + static_cast<ptrdiff_t>(i),
                   numbers.begin() + static_cast<ptrdiff_t>(i) + 5, random);
    }
    std::vector<bool> lost(201);
    for (const int number : numbers) {
      lost[static_cast<size_t>(number)] = random() % 10 == 0;
      if (lost[static_cast<size_t>(number)]) continue;
      order.push(frame(number));
      add(order.take());
    }
    add(order.flush());
    for (size_t i = 0; i < heard.size() / frame_bytes; ++i) {
      const int value = std::to_integer<int>(heard[i * frame_bytes]);
      ASSERT_EQ(value, lost[i + 1] ? 0xff : static_cast<int>(i + 1));
    }
  }
}

}  // namespace
}  // namespace tutti::proto
