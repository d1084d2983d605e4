#include "app/transcript_view.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(TranscriptView, RewritesTheOpenSegmentInPlaceOnATerminal) {
  TranscriptView view(true, 80);
  EXPECT_EQ(view.partial("HEL"), "\r\x1b[K\x1b[2mHEL\x1b[0m");
  EXPECT_EQ(view.partial("HELLO"), "\r\x1b[K\x1b[2mHELLO\x1b[0m");
  EXPECT_EQ(view.final("HELLO", 62.4), "\r\x1b[K\x1b[2m 1:02.40\x1b[0m  HELLO\n");
}

TEST(TranscriptView, WritesOnlyFinalsElsewhere) {
  TranscriptView view(false, 80);
  EXPECT_EQ(view.partial("HEL"), "");
  EXPECT_EQ(view.final("HELLO", 62.4), "HELLO\n");
  EXPECT_EQ(view.final("", 63), "");
  EXPECT_EQ(view.clear(), "");
}

TEST(TranscriptView, TakesTheOpenSegmentAwayOnce) {
  TranscriptView view(true, 80);
  EXPECT_EQ(view.clear(), "");
  (void)view.partial("HEL");
  EXPECT_EQ(view.clear(), "\r\x1b[K");
  EXPECT_EQ(view.clear(), "");
  (void)view.partial("HEL");
  EXPECT_EQ(view.final("", 1), "\r\x1b[K");
}

TEST(TranscriptView, KeepsControlCharactersFromTheTerminal) {
  TranscriptView view(true, 80);
  EXPECT_EQ(view.partial("A\x1b[2J\nB\x7f\xC2\x9B"
                         "31mC\xC3\xA9"),
            "\r\x1b[K\x1b[2mA [2J B  31mC\xC3\xA9\x1b[0m");
  TranscriptView plain(false, 80);
  EXPECT_EQ(plain.final("A\r\nB", 0), "A  B\n");
}

TEST(FitEnd, KeepsTheEndOfALongSegment) {
  EXPECT_EQ(fit_end("HELLO", 5), "HELLO");
  EXPECT_EQ(fit_end("HELLO WORLD", 6), "…WORLD");
  EXPECT_EQ(fit_end("", 5), "");
}

TEST(FitEnd, CutsBetweenCharactersAndCountsWideOnesTwice) {
  EXPECT_EQ(fit_end("ÀÉÎÕ", 4), "ÀÉÎÕ");
  EXPECT_EQ(fit_end("ÀÉÎÕÜ", 4), "…ÎÕÜ");
  EXPECT_EQ(fit_end("你好世界", 8), "你好世界");
  EXPECT_EQ(fit_end("你好世界", 6), "…世界");
  EXPECT_EQ(fit_end("你好世界", 5), "…世界");
}

TEST(FitEnd, ShowsAtLeastTheMarkWhenNothingFits) { EXPECT_EQ(fit_end("HELLO", 0), "…"); }

TEST(ClockTime, CountsHoursOnlyFromAnHourOn) {
  EXPECT_EQ(clock_time(0), "0:00.00");
  EXPECT_EQ(clock_time(9.999), "0:10.00");
  EXPECT_EQ(clock_time(3599.99), "59:59.99");
  EXPECT_EQ(clock_time(3725.5), "1:02:05.50");
  EXPECT_EQ(clock_time(-1), "0:00.00");
}

}  // namespace
}  // namespace tutti
