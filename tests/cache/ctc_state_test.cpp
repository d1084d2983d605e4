#include "cache/ctc_state.hpp"

#include <gmock/gmock.h>

#include "tests/cache/fake_decoder.hpp"
#include "tests/cache/throws.hpp"

namespace tutti {
namespace {

class CtcStateCacheManagerTest : public testing::Test {
 protected:
  FakeDecoder::Counts counts_;
  CtcStateCacheManager ctc_{std::make_unique<FakeDecoder>(counts_), 2};
};

TEST_F(CtcStateCacheManagerTest, CreatesItsStatesUpFrontAndNoMore) {
  EXPECT_EQ(counts_.created, 2);
  for (StreamId id = 0; id < 10; ++id) {
    ctc_.allocate_stream(id);
    ctc_.free_stream(id);
  }
  EXPECT_EQ(counts_.created, 2);
  EXPECT_EQ(counts_.destroyed, 0);
  EXPECT_EQ(ctc_.pooled_states(), 2);
}

TEST_F(CtcStateCacheManagerTest, AReusedStateIsReset) {
  ctc_.allocate_stream(1);
  ctc_.get_decoder(1).decode_chunk(OneFrame{7}.frames());
  ctc_.free_stream(1);
  ctc_.allocate_stream(2);
  EXPECT_TRUE(ctc_.get_decoder(2).best().empty());
  EXPECT_EQ(counts_.resets, 2);
}

TEST_F(CtcStateCacheManagerTest, StreamsDecodeIndependently) {
  ctc_.allocate_stream(1);
  ctc_.allocate_stream(2);
  ctc_.get_decoder(1).decode_chunk(OneFrame{7}.frames());
  ctc_.get_decoder(2).decode_chunk(OneFrame{8}.frames());
  ctc_.get_decoder(2).decode_chunk(OneFrame{9}.frames());
  EXPECT_EQ(ctc_.get_decoder(1).best().back().id, 7);
  EXPECT_EQ(ctc_.get_decoder(2).finalize_stream().back().id, 9);
  ctc_.get_decoder(2).reset();
  EXPECT_EQ(ctc_.get_decoder(1).frames(), 1);
  EXPECT_EQ(ctc_.get_decoder(2).frames(), 0);
}

TEST_F(CtcStateCacheManagerTest, BeginsABatchWithEachStreamsStateAndRows) {
  ctc_.allocate_stream(1);
  ctc_.allocate_stream(2);
  const std::vector<StreamId> ids{2, 1};
  const std::vector<int32_t> row_begin{0, 3, 5};
  const CtcRows rows = ctc_.begin_chunks(ids, {row_begin}, {{}, {}});
  EXPECT_EQ(rows.ids.data, nullptr) << "those that it was given";
  ASSERT_EQ(counts_.begun.size(), 2U);
  EXPECT_EQ(counts_.begun[0].first_row, 0);
  EXPECT_EQ(counts_.begun[0].frames, 3);
  EXPECT_EQ(counts_.begun[1].first_row, 3);
  EXPECT_EQ(counts_.begun[1].frames, 2);
  EXPECT_NE(counts_.begun[0].state, counts_.begun[1].state);
  const std::vector<StreamId> stranger{3};
  expect_throws<UnknownStream>([&] { static_cast<void>(ctc_.begin_chunks(stranger, {row_begin}, {})); },
                               "begin_chunks", "3");
}

TEST_F(CtcStateCacheManagerTest, RefusesADuplicateAndKeepsItsHypothesis) {
  ctc_.allocate_stream(1);
  ctc_.get_decoder(1).decode_chunk(OneFrame{7}.frames());
  expect_throws<std::invalid_argument>([&] { ctc_.allocate_stream(1); }, "stream 1", "already allocated");
  EXPECT_EQ(ctc_.get_decoder(1).frames(), 1);
}

TEST_F(CtcStateCacheManagerTest, IsExhaustedWhenEveryStateIsInUse) {
  ctc_.allocate_stream(1);
  ctc_.allocate_stream(2);
  expect_throws<PoolExhausted>([&] { ctc_.allocate_stream(3); }, "requested 1", "0 of 2");
  EXPECT_EQ(ctc_.pooled_states(), 0);
}

TEST_F(CtcStateCacheManagerTest, DoesNotKnowAStreamThatWasFreed) {
  ctc_.allocate_stream(1);
  ctc_.free_stream(1);
  expect_throws<UnknownStream>([&] { (void)ctc_.get_decoder(1); }, "stream 1");
  expect_throws<UnknownStream>([&] { ctc_.free_stream(1); }, "stream 1");
}

TEST(CtcStateCacheManager, RefusesToBeEmpty) {
  FakeDecoder::Counts counts;
  EXPECT_THROW(CtcStateCacheManager(std::make_unique<FakeDecoder>(counts), 0), std::invalid_argument);
  EXPECT_THROW(CtcStateCacheManager(nullptr, 1), std::invalid_argument);
}

}  // namespace
}  // namespace tutti
