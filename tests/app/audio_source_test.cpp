#include "app/audio_source.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "config/result.hpp"

namespace tutti {
namespace {

std::string bytes_of(std::initializer_list<int> values) {
  std::string bytes;
  for (const int value : values) bytes += static_cast<char>(value);
  return bytes;
}

TEST(S16le, RoundsToNearestAndClips) {
  const std::vector<float> samples{0.0F, 0.5F, -0.5F, 1.0F, -1.0F, 1.6F / 32768, 2.0F};
  EXPECT_EQ(to_s16le(samples), bytes_of({0, 0, 0, 0x40, 0, 0xC0, 0xFF, 0x7F, 0, 0x80, 2, 0, 0xFF, 0x7F}));
}

TEST(FileSource, GivesAWholeFileInPieces) {
  const auto source = open_audio_file(TUTTI_TEST_DATA "/speech/digit-34.flac");
  EXPECT_EQ(source->sample_rate(), 8000);
  std::string all;
  std::string bytes;
  while (source->read(160, bytes) == AudioSource::State::data) {
    EXPECT_LE(bytes.size(), 320U);
    all += bytes;
  }
  const auto again = open_audio_file(TUTTI_TEST_DATA "/speech/digit-34.flac");
  ASSERT_EQ(again->read(int64_t{8000} * 60, bytes), AudioSource::State::data);
  EXPECT_EQ(all, bytes);
  EXPECT_GT(all.size(), 2000U);
}

TEST(FileSource, NamesAFileItCannotOpen) {
  try {
    (void)open_audio_file("/nonexistent/speech.wav");
    FAIL() << "opened a file that is not there";
  } catch (const SetupError& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/speech.wav"), std::string::npos);
  }
}

TEST(RawSource, GivesWhatAPipeHoldsWithoutWaitingForMore) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const auto source = open_raw_audio(pipe[0], 16000);
  std::string bytes;
  EXPECT_EQ(source->read(100, bytes), AudioSource::State::waiting);
  ASSERT_EQ(::write(pipe[1], "abc", 3), 3);
  EXPECT_EQ(source->read(100, bytes), AudioSource::State::data);
  EXPECT_EQ(bytes, "abc");
  EXPECT_EQ(source->read(100, bytes), AudioSource::State::waiting);
  ASSERT_EQ(::write(pipe[1], "123456", 6), 6);
  ::close(pipe[1]);
  EXPECT_EQ(source->read(2, bytes), AudioSource::State::data);
  EXPECT_EQ(bytes, "1234");
  EXPECT_EQ(source->read(2, bytes), AudioSource::State::data);
  EXPECT_EQ(bytes, "56");
  EXPECT_EQ(source->read(2, bytes), AudioSource::State::end);
  ::close(pipe[0]);
}

}  // namespace
}  // namespace tutti
