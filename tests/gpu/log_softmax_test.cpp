#include "gpu/cpu/log_softmax.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/gpu/every_target.hpp"
#include "tests/gpu/random_tensor.hpp"
#include "tests/gpu/references.hpp"

namespace tutti {
namespace {

struct Output {
  Tensor log_probs, ids, values;
};

Output run(const TensorView& logits, int k) {
  Output out{host_tensor(logits.shape, Random::values(logits)), host_tensor(DType::i32, {logits.rows(), k}),
             host_tensor(DType::f32, {logits.rows(), k})};
  cpu::log_softmax_top_k(out.log_probs, k, out.ids, out.values);
  return out;
}

void expect_top_k(const Output& out) {
  for (int64_t r = 0; r < out.log_probs.shape()[0]; ++r) {
    const std::span<const float> row = Random::values(out.log_probs.view()[r]);
    const std::vector<int32_t> expected = reference::sorted_ids(row);
    for (int64_t i = 0; i < out.ids.shape()[1]; ++i) {
      const int32_t id = out.ids.view()[r].i32()[i];
      EXPECT_EQ(id, expected[static_cast<size_t>(i)]) << "row " << r << " rank " << i;
      EXPECT_EQ(out.values.view()[r].f32()[i], row[static_cast<size_t>(id)]);
    }
  }
}

TEST(LogSoftmaxTopK, MatchesADoubleReferenceAndASort) {
  for (const int vocabulary : {1, 2, 7, 40, 500, 5002, 30001}) {
    Random random(static_cast<uint64_t>(vocabulary));
    SCOPED_TRACE(random.trace());
    const int k = std::min(vocabulary, random.between(1, 64));
    const Tensor logits = random.tensor({vocabulary > 5000 ? 3 : 20, vocabulary}, 5.0F);
    on_every_target([&] {
      const Output out = run(logits, k);
      EXPECT_TRUE(close_to(Random::values(out.log_probs), reference::log_softmax(logits), 1e-6))
          << vocabulary;
      expect_top_k(out);
    });
  }
}

TEST(LogSoftmaxTopK, SumsAFlatRowOfManyTokens) {
  const Tensor logits = host_tensor(DType::f32, {1, 50000});
  on_every_target([&] {
    const Output out = run(logits, 1);
    EXPECT_TRUE(close_to(Random::values(out.log_probs), reference::log_softmax(logits), 2e-7));
  });
}

TEST(LogSoftmaxTopK, ToleratesLogitsFarBeyondTheRangeOfExp) {
  const Tensor logits = host_tensor({1, 4}, std::vector<float>{1000.0F, -1000.0F, 999.0F, -3e38F});
  const Output out = run(logits, 4);
  EXPECT_TRUE(close_to(Random::values(out.log_probs), reference::log_softmax(logits), 1e-6));
  expect_top_k(out);
}

TEST(LogSoftmaxTopK, PrefersTheSmallerIdAmongEquals) {
  Random random(3);
  const Tensor logits = random.tensor({30, 333});
  for (float& v : Random::values(logits)) v = std::round(v);  // a handful of different values
  for (const int k : {1, 10, 64, 333}) expect_top_k(run(logits, k));
}

TEST(LogSoftmaxTopK, GivesARowTheSameBitsAloneAndInACrowd) {
  Random random(4);
  const Tensor logits = random.tensor({21, 5002});
  const Output crowd = run(logits, 10);
  for (int64_t r = 0; r < 21; ++r) {
    const Output alone = run(logits.view().slice(r, 1), 10);
    EXPECT_TRUE(same_bits(Random::values(alone.log_probs), Random::values(crowd.log_probs.view()[r])));
    EXPECT_TRUE(same_bits(Random::values(alone.values), Random::values(crowd.values.view()[r])));
  }
}

}  // namespace
}  // namespace tutti
