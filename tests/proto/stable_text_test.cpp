#include "proto/stable_text.hpp"

#include <gtest/gtest.h>

namespace tutti::proto {
namespace {

TEST(StableText, AppendsWordsThatTwoHypothesesAgreeOn) {
  StableText text;
  EXPECT_EQ(text.extend("THE QUI"), "");
  EXPECT_EQ(text.extend("THE QUICK BRO"), "THE");
  EXPECT_EQ(text.extend("THE QUICK BROWN FOX"), " QUICK");
  EXPECT_EQ(text.finish("THE QUICK BROWN FOX"), " BROWN FOX");
}

TEST(StableText, KeepsAWordBackThatMayGrow) {
  StableText text;
  EXPECT_EQ(text.extend("HEL"), "");
  EXPECT_EQ(text.extend("HEL"), "");
  EXPECT_EQ(text.finish("HELLO"), "HELLO");
}

TEST(StableText, SaysNothingMoreWhenWhatWasSaidIsTakenBack) {
  StableText text;
  EXPECT_EQ(text.extend("A NICE CREAM"), "");
  EXPECT_EQ(text.extend("A NICE CREAM"), "A NICE");
  EXPECT_EQ(text.extend("AN ICE CREAM"), "");
  EXPECT_EQ(text.finish("AN ICE CREAM"), "");
}

TEST(StableText, BeginsAnewAfterTheEnd) {
  StableText text;
  EXPECT_EQ(text.finish("ONE"), "ONE");
  EXPECT_EQ(text.finish("TWO"), "TWO");
  EXPECT_EQ(text.finish(""), "");
}

}  // namespace
}  // namespace tutti::proto
