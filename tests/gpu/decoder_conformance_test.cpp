#include "gpu/cpu/cpu_ops.hpp"
#include "tests/gpu/conformance.hpp"

namespace tutti {
namespace {

/// A layer of a decoder's cache on one backend, and what its lanes hold.
class Cache {
 public:
  Cache(Ops& ops, DType format, int lanes, int heads, int head_dim)
      : ops_(ops),
        k_(ops.allocate(format, {lanes * pages_per_lane, page_tokens, heads, head_dim})),
        v_(ops.allocate(format, k_.shape())),
        held_(static_cast<size_t>(lanes), 0) {
    if (format == DType::f8e4m3) {
      k_scales_ = ops.allocate(DType::f32, {k_.shape()[0], page_tokens, heads});
      v_scales_ = ops.allocate(DType::f32, k_scales_.shape());
    }
    // A lane's pages are far apart.
    for (int lane = 0; lane < lanes; ++lane) {
      for (int page = 0; page < pages_per_lane; ++page) table_.push_back(page * lanes + lane);
    }
  }

  void append(const std::vector<int32_t>& row_begin, const TensorView& keys_values) {
    ops_.append_decoder_kv({row_begin}, view(), ops_.upload(keys_values));
    commit(row_begin);
  }
  std::vector<float> self_attention(const std::vector<int32_t>& row_begin, const TensorView& qkv,
                                    int64_t width) {
    const Tensor out = ops_.allocate(DType::f32, {qkv.rows(), width});
    ops_.decoder_self_attention({row_begin}, view(), ops_.upload(qkv), out);
    commit(row_begin);
    return values(out);
  }
  std::vector<float> cross_attention(const std::vector<int32_t>& row_begin, const TensorView& queries) {
    const Tensor out = ops_.allocate(DType::f32, queries.shape);
    ops_.decoder_cross_attention({row_begin}, view(), ops_.upload(queries), out);
    return values(out);
  }
  /// All of K or V as it is stored.
  [[nodiscard]] std::vector<std::byte> stored(bool keys) {
    const Tensor& tensor = keys ? k_ : v_;
    std::vector<std::byte> bytes(tensor.bytes());
    const Reading reading{tensor, bytes.data()};
    ops_.read({&reading, 1});
    return bytes;
  }

 private:
  static constexpr int pages_per_lane = 6;
  static constexpr int page_tokens = 4;

  [[nodiscard]] DecoderKv view() const {
    return {k_, v_, k_scales_, v_scales_, table_, pages_per_lane, held_};
  }
  void commit(const std::vector<int32_t>& row_begin) {
    for (size_t i = 0; i < held_.size(); ++i) held_[i] += row_begin[i + 1] - row_begin[i];
  }
  [[nodiscard]] std::vector<float> values(const TensorView& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.shape.elements()));
    ops_.download(tensor, values);
    return values;
  }

  Ops& ops_;
  Tensor k_, v_, k_scales_, v_scales_;
  std::vector<int32_t> table_;
  std::vector<int32_t> held_;
};

class DecoderConformance : public OpsConformance {};
INSTANTIATE_TEST_SUITE_P(Backends, DecoderConformance,
                         testing::ValuesIn(serving_backends({"append_decoder_kv", "decoder_self_attention",
                                                             "decoder_cross_attention"})),
                         backend_name);

void expect_close(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 2e-5) << "value " << i;
}

TEST_P(DecoderConformance, StoresTheSameBitsAndAttendsAsTheCpuInEveryFormatAndWidth) {
  const auto cpu = make_cpu_ops();
  for (const DType format : {DType::f32, DType::bf16, DType::f8e4m3}) {
    for (const int head_dim : {8, 33, 64, 100, 200}) {
      Random random(static_cast<uint64_t>(format) + static_cast<uint64_t>(head_dim));
      SCOPED_TRACE(std::to_string(head_dim) + " values, " + random.trace());
      const int heads = 2, sharing = 2;
      const int width = heads * sharing * head_dim, pair = 2 * heads * head_dim;
      Cache ours(ops(), format, 3, heads, head_dim);
      Cache theirs(*cpu, format, 3, heads, head_dim);
      // A prompt, steps of one and several tokens, and a lane that has none.
      for (const std::vector<int32_t>& begins :
           {std::vector<int32_t>{0, 5, 9, 9}, {0, 1, 2, 2}, {0, 3, 3, 4}, {0, 1, 2, 3}}) {
        const Tensor qkv = random.tensor({begins.back(), width + pair});
        expect_close(ours.self_attention(begins, qkv, width), theirs.self_attention(begins, qkv, width));
      }
      const std::vector<int32_t> more{0, 2, 3, 6};
      const Tensor keys_values = random.tensor({6, pair});
      ours.append(more, keys_values);
      theirs.append(more, keys_values);
      EXPECT_EQ(ours.stored(true), theirs.stored(true));
      EXPECT_EQ(ours.stored(false), theirs.stored(false));
      const Tensor queries = random.tensor({6, width});
      expect_close(ours.cross_attention(more, queries), theirs.cross_attention(more, queries));
    }
  }
}

TEST_P(DecoderConformance, GivesZerosWhereALaneHoldsNothing) {
  Cache cache(ops(), DType::f32, 2, 1, 8);
  Random random(4);
  cache.append({0, 1, 1}, random.tensor({1, 16}));
  const std::vector<float> out = cache.cross_attention({0, 1, 2}, random.tensor({2, 8}));
  EXPECT_NE(out[0], 0);
  for (const float x : row_of(out, 1, 8)) EXPECT_EQ(x, 0);
}

TEST_P(DecoderConformance, GivesALaneTheSameBitsAloneAndInACrowd) {
  Random random(5);
  const Tensor qkv = random.tensor({9, 3 * 32});
  Cache crowd(ops(), DType::bf16, 3, 2, 16);
  const std::vector<float> together = crowd.self_attention({0, 4, 8, 9}, qkv, 32);
  Cache alone(ops(), DType::bf16, 1, 2, 16);
  const std::vector<float> second = alone.self_attention({0, 4}, qkv.view().slice(4, 4), 32);
  EXPECT_TRUE(same_bits(second, std::span(together).subspan(4 * 32, 4 * 32)));
}

}  // namespace
}  // namespace tutti
