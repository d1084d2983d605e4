#include <bit>
#include <numeric>

#include "tests/gpu/conformance.hpp"

namespace tutti {
namespace {

/// A tensor whose element i is i + 1.
Tensor counting(const Shape& shape) {
  Tensor t = host_tensor(DType::f32, shape);
  const std::span<float> values = Random::values(t);
  std::iota(values.begin(), values.end(), 1.0F);
  return t;
}

class IndexingConformance : public OpsConformance {
 protected:
  [[nodiscard]] std::vector<float> select(const TensorView& from, int axis, std::vector<int32_t> indices,
                                          const Shape& out_shape) {
    const Tensor out = ops().allocate(DType::f32, out_shape);
    ops().index_select(from, axis, indices, out);
    return host(out);
  }
};

TEST_P(IndexingConformance, SelectsEntriesOfAnyAxisInTheOrderAskedFor) {
  const Tensor t = device(counting({2, 3, 2}));
  EXPECT_EQ(select(t, 0, {1, 0}, {2, 3, 2}), (std::vector<float>{7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(select(t, 1, {2, 0, 2}, {2, 3, 2}), (std::vector<float>{5, 6, 1, 2, 5, 6, 11, 12, 7, 8, 11, 12}));
  EXPECT_EQ(select(t, 2, {1}, {2, 3, 1}), (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

TEST_P(IndexingConformance, CopiesIntoTheEntriesAndLeavesTheOthers) {
  const Tensor t = device(counting({2, 3, 2}));
  ops().index_copy(device(host_tensor({2, 2, 2}, std::vector<float>{-1, -2, -3, -4, -5, -6, -7, -8})), 1,
                   std::vector<int32_t>{2, 0}, t);
  EXPECT_EQ(host(t), (std::vector<float>{-3, -4, 3, 4, -1, -2, -7, -8, 9, 10, -5, -6}));
}

TEST_P(IndexingConformance, AnIndexThatComesTwiceTakesOneOfItsEntries) {
  const Tensor t = ops().allocate(DType::f32, {3});
  ops().index_copy(device(host_tensor({2}, std::vector<float>{5, 6})), 0, std::vector<int32_t>{1, 1}, t);
  const std::vector<float> values = host(t);
  EXPECT_TRUE(values[1] == 5 || values[1] == 6) << values[1];
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[2], 0);
}

TEST_P(IndexingConformance, FillsTheEntriesAndLeavesTheOthers) {
  const Tensor t = device(counting({2, 3, 2}));
  ops().index_fill(t, 1, std::vector<int32_t>{0, 2}, 0.1);
  EXPECT_EQ(host(t), (std::vector<float>{0.1F, 0.1F, 3, 4, 0.1F, 0.1F, 0.1F, 0.1F, 9, 10, 0.1F, 0.1F}));
}

TEST_P(IndexingConformance, WhatWasSelectedCopiesBackUnchanged) {
  Random random(11);
  SCOPED_TRACE(random.trace());
  for (int trial = 0; trial < 20; ++trial) {
    const int n = random.between(1, 9);
    const int lanes = random.between(1, n);
    const int axis = random.between(0, 3);
    const auto extent = [&](int i, int on_axis) { return i == axis ? on_axis : 1 + (i * 7 + trial) % 5; };
    const auto shape = [&](int on_axis) {
      return Shape{extent(0, on_axis), extent(1, on_axis), extent(2, on_axis), extent(3, on_axis)};
    };
    std::vector<int32_t> indices = random.permutation(n);
    indices.resize(static_cast<size_t>(lanes));
    const Tensor t = device(random.tensor(shape(n)));
    const std::vector<float> before = host(t);
    const Tensor selected = ops().allocate(DType::f32, shape(lanes));
    ops().index_select(t, axis, indices, selected);
    ops().index_fill(t, axis, indices, 0);
    EXPECT_FALSE(same_bits(host(t), before));
    ops().index_copy(selected, axis, indices, t);
    EXPECT_TRUE(same_bits(host(t), before));
  }
}

TEST_P(IndexingConformance, MovesIntegers) {
  const Tensor t = ops().allocate(DType::i32, {4});
  ops().index_fill(t, 0, std::vector<int32_t>{1, 3}, 123'456'789);
  const Tensor selected = ops().allocate(DType::i32, {3});
  ops().index_select(t, 0, std::vector<int32_t>{3, 0, 1}, selected);
  const std::vector<float> bits = host(selected);  // download copies what the elements are stored as
  EXPECT_EQ(std::bit_cast<int32_t>(bits[0]), 123'456'789);
  EXPECT_EQ(std::bit_cast<int32_t>(bits[1]), 0);
  EXPECT_EQ(std::bit_cast<int32_t>(bits[2]), 123'456'789);
}

TEST_P(IndexingConformance, TakesEmptyEntriesAndNoIndices) {
  const Tensor empty = ops().allocate(DType::f32, {2, 3, 0});
  ops().index_fill(empty, 1, std::vector<int32_t>{0}, 1);
  EXPECT_TRUE(select(empty, 1, {1}, {2, 1, 0}).empty());
  const Tensor t = device(counting({2}));
  EXPECT_TRUE(select(t, 0, {}, {0}).empty());
  ops().index_fill(t, 0, {}, 9);
  EXPECT_EQ(host(t), (std::vector<float>{1, 2}));
}

TEST_P(IndexingConformance, MovesElementsOfEverySize) {
  for (const DType dtype : {DType::i8, DType::bf16, DType::i32}) {
    // Uploaded as the f32 words that hold its bytes.
    const auto elements = static_cast<int64_t>(size_of(DType::f32) / size_of(dtype));
    const Tensor words = counting({2, 3, 5});
    const Tensor held = device(words);
    const TensorView t{held.view().data, dtype, {2, 3, 5 * elements}};
    const Tensor selected = ops().allocate(DType::f32, {2, 1, 5});
    ops().index_select(t, 1, std::vector<int32_t>{1}, {selected.view().data, dtype, {2, 1, 5 * elements}});
    EXPECT_EQ(host(selected), (std::vector<float>{6, 7, 8, 9, 10, 21, 22, 23, 24, 25}));
    ops().index_fill(t, 1, std::vector<int32_t>{1}, 0);
    const std::vector<float> left = host(held);
    for (size_t i = 0; i < left.size(); ++i) {
      EXPECT_EQ(left[i], i / 5 % 3 == 1 ? 0.0F : static_cast<float>(i + 1)) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, IndexingConformance,
                         testing::ValuesIn(serving_backends({"index_select", "index_copy", "index_fill"})),
                         backend_name);

}  // namespace
}  // namespace tutti
