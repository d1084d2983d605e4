#include "engine/recognizer_identity.hpp"

#include <gmock/gmock.h>

namespace tutti {
namespace {

using testing::HasSubstr;

TEST(RecognizerIdentity, IsTheSameHoweverManyStreamsAnEngineHas) {
  EngineConfig other;
  other.owners = 3;
  other.max_streams = 7;
  other.max_batch_size = 2;
  other.max_buffered_ms = 9000;
  other.block_size_frames = other.chunk_size;  // what 0 stands for
  EXPECT_EQ(recognition_settings(other), recognition_settings({}));
}

TEST(RecognizerIdentity, LeavesOutWhatADecoderDoesNotUse) {
  EngineConfig greedy;
  greedy.decoder = "greedy";
  EngineConfig other = greedy;
  other.beam = 3;
  other.ctc_weight = 0.25F;
  EXPECT_EQ(recognition_settings(other), recognition_settings(greedy));
  other.decoder = greedy.decoder = "rescore";
  EXPECT_NE(recognition_settings(other), recognition_settings(greedy));
}

TEST(RecognizerIdentity, OfAnotherModelSaysBoth) {
  RecognizerIdentity here{.model = {}, .settings = recognition_settings({})};
  RecognizerIdentity there = here;
  EXPECT_EQ(difference(here, there), "");
  there.model.digest[0] = 0xAB;
  EXPECT_THAT(difference(here, there), HasSubstr("its model is ab00"));
  EXPECT_THAT(difference(here, there), HasSubstr("; 0000"));
}

TEST(RecognizerIdentity, OfAnotherUseSaysBoth) {
  EngineConfig config;
  config.weights = "int8";
  const RecognizerIdentity here{.model = {}, .settings = recognition_settings({})};
  const RecognizerIdentity there{.model = {}, .settings = recognition_settings(config)};
  EXPECT_THAT(difference(here, there), HasSubstr("it recognizes with weights=int8"));
  EXPECT_THAT(difference(here, there), HasSubstr("; weights=fp32"));
}

}  // namespace
}  // namespace tutti
