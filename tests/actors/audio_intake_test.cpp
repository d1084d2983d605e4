#include "actors/audio_intake.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace tutti {
namespace {

AudioFormat raw(int rate) { return {.sample_rate = rate}; }

void must(const Result<void>& result) { ASSERT_TRUE(result.has_value()) << result.error().message; }

std::vector<std::byte> tone(int64_t samples) {
  std::vector<std::byte> bytes(static_cast<size_t>(samples) * 2);
  for (int64_t i = 0; i < samples; ++i) {
    const auto value = static_cast<int16_t>((i * 977) % 20011 - 10005);
    std::memcpy(&bytes[static_cast<size_t>(i) * 2], &value, 2);
  }
  return bytes;
}

std::vector<float> convert_all(AudioIntake& intake) {
  std::vector<float> out;
  while (intake.begin() < intake.end()) must(intake.convert(intake.end(), out));
  return out;
}

TEST(AudioIntake, ConvertsAMessageInPiecesOfATenthOfASecond) {
  auto intake = AudioIntake::create(raw(16000), 16000);
  ASSERT_TRUE(intake);
  intake->push(tone(16000));
  std::vector<float> out;
  must(intake->convert(intake->end(), out));
  EXPECT_EQ(out.size(), 1600U);
  EXPECT_EQ(intake->begin(), 3200);
  EXPECT_EQ(intake->end(), 32000);
}

TEST(AudioIntake, StopsAtTheLimit) {
  auto intake = AudioIntake::create(raw(16000), 16000);
  ASSERT_TRUE(intake);
  intake->push(tone(1000));
  std::vector<float> out;
  must(intake->convert(500, out));
  EXPECT_EQ(out.size(), 250U);
  must(intake->convert(500, out));
  EXPECT_EQ(out.size(), 250U);
}

TEST(AudioIntake, GivesTheSameSamplesHoweverTheBytesAreCut) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::vector<std::byte> bytes = tone(20000);
  for (const int rate : {8000, 16000, 44100}) {
    auto whole = AudioIntake::create(raw(rate), 16000);
    auto cut = AudioIntake::create(raw(rate), 16000);
    ASSERT_TRUE(whole && cut);
    whole->push(bytes);
    std::vector<float> expected = convert_all(*whole);
    std::vector<float> actual;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = std::min(bytes.size() - at, std::uniform_int_distribution<size_t>(1, 900)(random));
      cut->push(std::span(bytes).subspan(at, size));
      at += size;
      if (random() % 3 == 0) must(cut->convert(cut->end(), actual));
    }
    while (cut->begin() < cut->end()) must(cut->convert(cut->end(), actual));
    EXPECT_EQ(actual, expected) << rate;
  }
}

TEST(AudioIntake, LosesNothingAtAFlush) {
  auto intake = AudioIntake::create(raw(8000), 16000);
  ASSERT_TRUE(intake);
  intake->push(tone(4000));
  std::vector<float> out = convert_all(*intake);
  EXPECT_LT(out.size(), 8000U);
  intake->flush(out);
  EXPECT_EQ(out.size(), 8000U);
}

TEST(AudioIntake, KeepsTheClockExactOverManyFlushes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  auto intake = AudioIntake::create(raw(44100), 16000);
  ASSERT_TRUE(intake);
  int64_t in = 0;
  int64_t out = 0;
  for (int i = 0; i < 500; ++i) {
    const int64_t samples = std::uniform_int_distribution<int64_t>(0, 3000)(random);
    intake->push(tone(samples));
    std::vector<float> converted = convert_all(*intake);
    intake->flush(converted);
    in += samples;
    out += static_cast<int64_t>(converted.size());
    ASSERT_EQ(out, in * 16000 / 44100) << "after flush " << i;
  }
}

}  // namespace
}  // namespace tutti
