#include "cluster/wire.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

#include "tests/cluster/random_frames.hpp"
#include "tests/config/random_bytes.hpp"

namespace tutti {
namespace {

using namespace wire;
using std::chrono::hours;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

constexpr size_t kinds = std::variant_size_v<Frame>;
/// What the sender's clock shows, and the receiver's, which began at another time.
const Clock::time_point there = Clock::time_point{} + hours(1000);
const Clock::time_point here = Clock::time_point{} + hours(7);

std::string refusal(std::span<const std::byte> bytes) {
  const Result<Frame> frame = decode(bytes, here);
  if (frame) return "accepted";
  EXPECT_EQ(frame.error().code, "bad_frame");
  return frame.error().message;
}

/// All bytes of a number in `bytes` from `at` on.
template <class T>
void put(std::vector<std::byte>& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

TEST(Wire, EveryFrameIsReadAsItWasWritten) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomFrames random(seed, here);
  for (size_t i = 0; i < 200 * kinds; ++i) {
    const Frame frame = random.frame(i % kinds);
    ASSERT_EQ(frame.index(), i % kinds);
    const std::vector<std::byte> bytes = encode(frame, here);
    const Result<Frame> read = decode(bytes, here);
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_TRUE(same(frame, *read)) << "a frame of kind " << i % kinds;
  }
}

TEST(Wire, AMomentIsAsLongAgoForTheReceiverAsItWasForTheSender) {
  const auto read = decode(encode(Finish{.stream = 3, .arrival = there - milliseconds(20)}, there), here);
  EXPECT_EQ(std::get<Finish>(read.value()).arrival, here - milliseconds(20));
}

TEST(Wire, NoMomentAtAllStaysNone) {
  Updates said{.stream = 1, .updates = std::vector<Update>(1), .snapshot = nullptr};
  const auto read = decode(encode(said, there), here);
  EXPECT_EQ(std::get<Updates>(read.value()).updates[0].ready_at, Clock::time_point{});
}

TEST(Wire, NumbersAreLittleEndianBehindTheFramesKind) {
  const std::vector<std::byte> bytes = encode(Reset{0x0102030405060708}, here);
  const std::vector<std::byte> expected = {std::byte{9}, std::byte{8}, std::byte{7},
                                           std::byte{6}, std::byte{5}, std::byte{4},
                                           std::byte{3}, std::byte{2}, std::byte{1}};
  EXPECT_EQ(bytes, expected);
}

TEST(Wire, TheModelIsPutIntoSnapshotsByTheReceiver) {
  const auto model = std::shared_ptr<const ConformerCtc>(std::make_shared<int>(), nullptr);
  StreamSnapshot snapshot;
  snapshot.past.emplace();
  const auto bytes = encode(Restore{1, std::make_shared<const StreamSnapshot>(snapshot)}, there);
  const auto read = decode(bytes, here, model);
  EXPECT_FALSE(model.owner_before(std::get<Restore>(read.value()).snapshot->past->model));
  EXPECT_FALSE(std::get<Restore>(read.value()).snapshot->past->model.owner_before(model));
}

TEST(Wire, NoPartOfAFrameIsTakenForAWhole) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomFrames random(seed, here);
  for (size_t i = 0; i < 5 * kinds; ++i) {
    std::vector<std::byte> bytes = encode(random.frame(i % kinds), here);
    for (size_t size = 0; size < bytes.size(); ++size) {
      ASSERT_NE(refusal(std::span(bytes).first(size)), "accepted") << size << " of " << bytes.size();
    }
    bytes.push_back(std::byte{0});
    ASSERT_THAT(refusal(bytes), HasSubstr("1 more bytes follow"));
  }
}

TEST(Wire, WhateverTheBytesAreTheyAreAFrameOrRefused) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomFrames random(seed, here);
  std::mt19937 dice(seed);
  size_t accepted = 0;
  for (size_t i = 0; i < 500 * kinds; ++i) {
    std::vector<std::byte> bytes = encode(random.frame(i % kinds), here);
    for (int changes = 1 + static_cast<int>(random.below(3)); changes > 0; --changes) {
      bytes[1 + random.below(bytes.size() - 1)] = static_cast<std::byte>(dice());
    }
    const Result<Frame> read = decode(bytes, here);
    if (!read) continue;
    ++accepted;
    // What is accepted is a frame like any other.
    const std::vector<std::byte> again = encode(*read, here);
    ASSERT_LE(again.size(), bytes.size());
    ASSERT_TRUE(same(*read, decode(again, here).value()));
  }
  EXPECT_GT(accepted, 0U);
}

TEST(Wire, AListThatIsSaidToBeLongerThanTheFrameIsRefusedBeforeItIsAllocated) {
  std::vector<std::byte> feed = encode(Feed{.stream = 1, .samples = {1, 2, 3}, .arrival = here}, here);
  put(feed, 9, uint32_t{0xFFFFFFFF});
  EXPECT_EQ(refusal(feed),
            "Feed: samples at byte 13: 4294967295 of at least 4 bytes each are said to follow, "
            "20 bytes are left");
  std::vector<std::byte> updates = encode(Updates{.stream = 1, .updates = {}, .snapshot = nullptr}, here);
  put(updates, 9, uint32_t{0x7FFFFFFF});
  EXPECT_THAT(refusal(updates), StartsWith("Updates: updates at byte 13: 2147483647 of at least 82 bytes"));
}

TEST(Wire, ARefusalSaysWhichFieldAndWhere) {
  std::vector<std::byte> admit = encode(Admit{}, here);
  put(admit, 13, uint8_t{2});
  EXPECT_EQ(refusal(admit), "Admit: stream_class at byte 14: 2 is not from 0 to 1");
  std::vector<std::byte> pong = encode(Pong{.number = 1, .owners = {{.free = 5}}}, here);
  put(pong, 18, int32_t{-1});
  EXPECT_EQ(refusal(pong), "Pong: free at byte 22: -1 is less than 0");
  std::vector<std::byte> finish = encode(Finish{.stream = 1, .arrival = here}, here);
  put(finish, 9, std::numeric_limits<int64_t>::max());
  EXPECT_THAT(refusal(finish), HasSubstr("is more than 146 years"));
  EXPECT_EQ(refusal({}), "Join: frame at byte 0: takes 1 bytes, 0 are left");
  EXPECT_EQ(refusal(std::vector{std::byte{16}}), "a frame of kind 16; there are those from 0 to 15");
}

TEST(Wire, AFrameThatIsTooLongIsNotLookedAt) {
  // Memory that was never written is not there.
  const std::unique_ptr<void, decltype(&std::free)> memory(std::calloc(max_frame_bytes + 1, 1), &std::free);
  EXPECT_EQ(refusal({static_cast<const std::byte*>(memory.get()), max_frame_bytes + 1}),
            "a frame of 268435457 bytes; 268435456 at most are accepted");
}

TEST(Wire, AnotherProtocolIsToldByItsNumberWhateverElseItsFramesHave) {
  for (Frame frame : {Frame(Join{.version = "2.0", .gateway = "a", .identity = {}}),
                      Frame(Joined{.version = "2.0", .engine = "b", .device = "c", .owners = {}})}) {
    std::vector<std::byte> bytes = encode(frame, there);
    put(bytes, 1, protocol_version + 1);
    bytes.resize(5);
    bytes.resize(40, std::byte{0xFF});
    const Frame read = decode(bytes, here).value();
    ASSERT_EQ(read.index(), frame.index());
    std::visit(
        [](const auto& each) {
          if constexpr (requires { each.version; }) {
            EXPECT_EQ(each.protocol, protocol_version + 1);
            EXPECT_EQ(each.version, "");
          }
        },
        read);
  }
  std::vector<std::byte> refused = encode(Refused{.reason = "too old"}, there);
  put(refused, 1, protocol_version + 1);
  EXPECT_EQ(std::get<Refused>(decode(refused, here).value()).reason, "too old");
}

}  // namespace
}  // namespace tutti
