#include "cache/decoder_kv_config.hpp"

#include <gtest/gtest.h>

#include "cache/attention_cache.hpp"
#include "cache/decoder_kv.hpp"
#include "cache/dense_decoder_kv.hpp"
#include "tests/cache/host_ops.hpp"
#include "tests/cache/throws.hpp"

namespace tutti {
namespace {

constexpr DType formats[] = {DType::f32, DType::bf16, DType::f8e4m3};

DecoderKvConfig with_head_dim(int head_dim, DType format) {
  return {.num_layers = 6, .n_kv_head = 4, .head_dim = head_dim, .format = format};
}

double gain_over_bf16(int head_dim) {
  return static_cast<double>(with_head_dim(head_dim, DType::bf16).bytes_per_token()) /
         static_cast<double>(with_head_dim(head_dim, DType::f8e4m3).bytes_per_token());
}

TEST(DecoderKvConfig, CountsABytePerValueAndFourPerVectorInFp8) {
  for (const int head_dim : {64, 128}) {
    EXPECT_EQ(with_head_dim(head_dim, DType::f8e4m3).bytes_per_token(), 2 * 6 * 4 * (head_dim + 4));
    EXPECT_EQ(with_head_dim(head_dim, DType::bf16).bytes_per_token(), 2 * 6 * 4 * head_dim * 2);
    EXPECT_EQ(with_head_dim(head_dim, DType::f32).bytes_per_token(), 2 * 6 * 4 * head_dim * 4);
  }
}

TEST(DecoderKvConfig, HoldsNearlyTwiceAsMuchInFp8AsInBf16) {
  EXPECT_NEAR(gain_over_bf16(64), 1.88, 0.005);
  EXPECT_NEAR(gain_over_bf16(128), 1.94, 0.005);
}

TEST(DecoderKvConfig, CountsTheBytesThatBothStoragesAllocate) {
  HostOps ops;
  for (const DType format : formats) {
    SCOPED_TRACE(decoder_kv_format_name(format));
    const DecoderKvConfig config{.num_layers = 3,
                                 .n_kv_head = 2,
                                 .head_dim = 24,
                                 .page_tokens = 8,
                                 .max_rows = 3,
                                 .max_row_tokens = 40,
                                 .format = format};
    const DecoderKvCacheManager paged(config, ops);
    int64_t bytes = 0;
    for (int layer = 0; layer < 3; ++layer) {
      const BlockPool::KvView kv = paged.pool().get_kv_view(layer);
      for (const TensorView& part : {kv.k, kv.v, kv.k_scales, kv.v_scales}) {
        if (part.data != nullptr) bytes += static_cast<int64_t>(part.bytes());
      }
    }
    EXPECT_EQ(bytes, config.bytes_per_token() * 8 * paged.config().num_pages);
    EXPECT_EQ(static_cast<int64_t>(DenseDecoderKv(config, ops).bytes()), config.bytes_per_token() * 40 * 3);
  }
}

TEST(DecoderKvConfig, DerivesThePagesThatAllRowsNeedAtMost) {
  EXPECT_EQ((DecoderKvConfig{.page_tokens = 16, .max_rows = 10, .max_row_tokens = 33}.validated().num_pages),
            30);
}

TEST(DecoderKvConfig, NamesTheFieldAndWhatIsAccepted) {
  using Invalid = std::invalid_argument;
  expect_throws<Invalid>([] { (void)DecoderKvConfig{.num_layers = 0}.validated(); }, "num_layers = 0");
  expect_throws<Invalid>([] { (void)DecoderKvConfig{.n_kv_head = -1}.validated(); }, "n_kv_head = -1");
  expect_throws<Invalid>([] { (void)DecoderKvConfig{.page_tokens = 0}.validated(); }, "page_tokens = 0");
  expect_throws<Invalid>([] { (void)DecoderKvConfig{.max_rows = 0}.validated(); }, "max_rows = 0");
  expect_throws<Invalid>([] { (void)DecoderKvConfig{.max_row_tokens = 0}.validated(); },
                         "max_row_tokens = 0");
  expect_throws<Invalid>([] { (void)DecoderKvConfig{.max_rows = 8, .num_pages = 7}.validated(); },
                         "num_pages = 7", "from 64");
  expect_throws<Invalid>([] { (void)DecoderKvConfig{.max_rows = 1 << 20}.validated(); }, "max_rows = 1048576",
                         "at most 16384", "num_pages");
}

TEST(DecoderKvConfig, RefusesAHeadThatTheAttentionsTileDoesNotHold) {
  EXPECT_NO_THROW((void)DecoderKvConfig{.head_dim = 256}.validated());
  HostOps ops;
  for (const DType format : formats) {
    const DecoderKvConfig config{.head_dim = 257, .max_rows = 1, .format = format};
    expect_throws<std::invalid_argument>([&] { DecoderKvCacheManager(config, ops); }, "head_dim = 257",
                                         "1 to 256");
    expect_throws<std::invalid_argument>([&] { DenseDecoderKv(config, ops); }, "head_dim = 257", "1 to 256");
  }
}

TEST(DecoderKvConfig, RefusesAFormatThatKeysAndValuesAreNotStoredIn) {
  HostOps ops;
  const DecoderKvConfig config{.max_rows = 1, .format = DType::i8};
  expect_throws<std::invalid_argument>([&] { DecoderKvCacheManager(config, ops); }, "f32, bf16 or fp8_e4m3");
  expect_throws<std::invalid_argument>([&] { DenseDecoderKv(config, ops); }, "f32, bf16 or fp8_e4m3");
}

TEST(DecoderKvConfig, NamesFormatsAndReadsTheirNames) {
  for (const DType format : formats) {
    EXPECT_EQ(parse_decoder_kv_format(decoder_kv_format_name(format)), format);
  }
  EXPECT_EQ(decoder_kv_format_name(DType::f8e4m3), "fp8_e4m3");
  expect_throws<std::invalid_argument>([] { (void)parse_decoder_kv_format("fp8_e5m2"); }, "\"fp8_e5m2\"",
                                       "f32, bf16 or fp8_e4m3");
}

TEST(DecoderKvConfig, AnEncodersCacheRefusesAPoolInFp8) {
  HostOps ops;
  const CacheConfig config{.num_layers = 1, .max_streams = 1};
  BlockPool pool(config, ops, DType::f8e4m3);
  expect_throws<std::invalid_argument>([&] { AttentionCacheManager(pool, config); }, "fp8_e4m3", "decoder");
}

}  // namespace
}  // namespace tutti
