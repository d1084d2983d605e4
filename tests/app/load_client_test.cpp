#include "app/load_client.hpp"

#include <gtest/gtest.h>

#include "config/result.hpp"

namespace tutti {
namespace {

TEST(WindowEnd, IsTheEndOfTheChunkAndItsLookAhead) {
  EXPECT_EQ(window_end_ms(0.04, 640), 685);
  EXPECT_EQ(window_end_ms(0.64, 640), 685);
  EXPECT_EQ(window_end_ms(0.68, 640), 1325);
  EXPECT_EQ(window_end_ms(12.80, 640), 12845);
  EXPECT_EQ(window_end_ms(0.0, 320), 365);
}

TEST(Clips, AreTheSoundFilesOfADirectoryWithTheirTexts) {
  const auto clips = load_clips(TUTTI_TEST_DATA "/speech");
  EXPECT_EQ(clips.size(), 50U);
  EXPECT_EQ(clips.front().file, "digit-34.flac");
  EXPECT_EQ(clips.front().sample_rate, 8000);
  EXPECT_GT(clips.front().samples(), 1000);
  for (const Clip& clip : clips) EXPECT_TRUE(clip.text.has_value()) << clip.file;
}

TEST(Clips, RefuseADirectoryWithoutAny) {
  EXPECT_THROW((void)load_clips(TUTTI_TEST_DATA "/ctc-decode"), SetupError);
  EXPECT_THROW((void)load_clips(TUTTI_TEST_DATA "/nonexistent"), SetupError);
}

}  // namespace
}  // namespace tutti
