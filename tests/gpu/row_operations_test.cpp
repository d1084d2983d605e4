#include <bit>
#include <cmath>

#include "tests/gpu/conformance.hpp"
#include "tests/gpu/references.hpp"

namespace tutti {
namespace {

constexpr float eps = 1e-5F;

using LayerNormConformance = OpsConformance;
INSTANTIATE_TEST_SUITE_P(Backends, LayerNormConformance, testing::ValuesIn(serving_backends({"layer_norm"})),
                         backend_name);

TEST_P(LayerNormConformance, MatchesADoubleReferenceAtAnyWidth) {
  for (const int width : {1, 3, 31, 32, 33, 250, 256, 257, 512, 513}) {
    Random random(static_cast<uint64_t>(width));
    SCOPED_TRACE(random.trace());
    const Tensor x = random.tensor({random.between(1, 20), width}, 3.0F);
    const Tensor gamma = random.tensor({width});
    const Tensor beta = random.tensor({width});
    const Tensor y = ops().allocate(DType::f32, x.shape());
    ops().layer_norm(device(x), device(gamma), device(beta), eps, y);
    EXPECT_TRUE(close_to(host(y), reference::layer_norm(x, gamma, beta, eps), 2e-6)) << width;
  }
}

TEST_P(LayerNormConformance, GivesARowTheSameBitsAloneInPlaceAndInACrowd) {
  Random random(2);
  const Tensor x = device(random.tensor({37, 72}));
  const Tensor gamma = device(random.tensor({72}));
  const Tensor beta = device(random.tensor({72}));
  const Tensor y = ops().allocate(DType::f32, x.shape());
  ops().layer_norm(x, gamma, beta, eps, y);
  for (int64_t r = 0; r < 37; ++r) {
    const TensorView row = x.view().slice(r, 1);
    ops().layer_norm(row, gamma, beta, eps, row);
  }
  EXPECT_TRUE(same_bits(host(x), host(y)));
}

struct TopK {
  std::vector<float> log_probs;
  std::vector<int32_t> ids;
  std::vector<float> values;
};

class LogSoftmaxConformance : public OpsConformance {
 protected:
  TopK run(const TensorView& logits, int k) {
    const Tensor x = device(logits);
    const Tensor ids = ops().allocate(DType::i32, {logits.rows(), k});
    const Tensor values = ops().allocate(DType::f32, {logits.rows(), k});
    ops().log_softmax_top_k(x, k, ids, values);
    TopK result{host(x), {}, host(values)};
    for (const float bits : host(ids)) result.ids.push_back(std::bit_cast<int32_t>(bits));
    return result;
  }
  static void expect_sorted(const TopK& result, int64_t vocabulary, int k) {
    for (int64_t r = 0; r * k < static_cast<int64_t>(result.ids.size()); ++r) {
      const std::span<const float> row = row_of(result.log_probs, r, vocabulary);
      const std::vector<int32_t> expected = reference::sorted_ids(row);
      for (int64_t i = 0; i < k; ++i) {
        const auto at = static_cast<size_t>(r * k + i);
        EXPECT_EQ(result.ids[at], expected[static_cast<size_t>(i)]) << "row " << r << " rank " << i;
        EXPECT_EQ(result.values[at], row[static_cast<size_t>(expected[static_cast<size_t>(i)])]);
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, LogSoftmaxConformance,
                         testing::ValuesIn(serving_backends({"log_softmax_top_k"})), backend_name);

TEST_P(LogSoftmaxConformance, MatchesADoubleReferenceAndASort) {
  for (const int vocabulary : {1, 2, 7, 255, 257, 5002}) {
    Random random(static_cast<uint64_t>(vocabulary));
    SCOPED_TRACE(random.trace());
    const int k = std::min(vocabulary, random.between(1, 12));
    const Tensor logits = random.tensor({3, vocabulary}, 5.0F);
    const TopK result = run(logits, k);
    EXPECT_TRUE(close_to(result.log_probs, reference::log_softmax(logits), 1e-6)) << vocabulary;
    expect_sorted(result, vocabulary, k);
  }
}

TEST_P(LogSoftmaxConformance, PrefersTheSmallerIdAmongEquals) {
  Random random(3);
  const Tensor logits = random.tensor({4, 333});
  for (float& v : Random::values(logits)) v = std::round(v);  // a handful of different values
  for (const int k : {1, 10, 64}) expect_sorted(run(logits, k), 333, k);
}

TEST_P(LogSoftmaxConformance, NamesExistingIdsEvenInARowOfNaN) {
  const Tensor logits = host_tensor({1, 40}, std::vector<float>(40, NAN));
  for (const int32_t id : run(logits, 3).ids) EXPECT_TRUE(id >= 0 && id < 40) << id;
}

TEST_P(LogSoftmaxConformance, GivesARowTheSameBitsAloneAndInACrowd) {
  Random random(4);
  const Tensor logits = random.tensor({5, 1000});
  const TopK crowd = run(logits, 10);
  for (int64_t r = 0; r < 5; ++r) {
    EXPECT_TRUE(same_bits(run(logits.view().slice(r, 1), 10).log_probs, row_of(crowd.log_probs, r, 1000)));
  }
}

}  // namespace
}  // namespace tutti
