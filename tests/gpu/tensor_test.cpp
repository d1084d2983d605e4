#include "gpu/tensor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace tutti {
namespace {

TEST(HostTensor, StartsAsZeroOnACacheLine) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8, DType::i32}) {
    const Tensor t = host_tensor(dtype, {3, 5});
    EXPECT_EQ(t.bytes(), 15 * size_of(dtype));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.view().data) % 64, 0U);
    EXPECT_TRUE(
        std::all_of(t.view().data, t.view().data + t.bytes(), [](std::byte b) { return b == std::byte{}; }));
  }
}

TEST(HostTensor, CopiesValuesAndRefusesAnotherNumberOfThem) {
  const Tensor t = host_tensor({2, 2}, std::vector<float>{1, 2, 3, 4});
  EXPECT_FLOAT_EQ(t.view()[1].f32()[0], 3);
  EXPECT_THAT(
      [] {
        static_cast<void>(host_tensor({2, 80}, std::vector<float>(3)));
      },
      testing::ThrowsMessage<std::invalid_argument>(
          testing::AllOf(testing::HasSubstr("2x80"), testing::HasSubstr("160"), testing::HasSubstr("3"))));
}

TEST(HostTensor, MayBeEmpty) {
  const Tensor t = host_tensor(DType::f32, {0, 256});
  EXPECT_EQ(t.bytes(), 0U);
  EXPECT_EQ(t.view().rows(), 0);
}

TEST(TensorView, SelectsEntriesOfTheOutermostAxis) {
  const Tensor t = host_tensor({3, 2}, std::vector<float>{0, 1, 2, 3, 4, 5});
  EXPECT_EQ(t.view()[2].shape, Shape({2}));
  EXPECT_FLOAT_EQ(t.view()[2].f32()[1], 5);
  const TensorView rows = t.view().slice(1, 2);
  EXPECT_EQ(rows.shape, Shape({2, 2}));
  EXPECT_FLOAT_EQ(rows.f32()[0], 2);
}

TEST(Shape, TakesAnAxisAnywhere) {
  EXPECT_EQ((Shape{2, 80}.with_axis(0, 7)), (Shape{7, 2, 80}));
  EXPECT_EQ((Shape{2, 80}.with_axis(1, 7)), (Shape{2, 7, 80}));
  EXPECT_EQ((Shape{2, 80}.with_axis(2, 7)), (Shape{2, 80, 7}));
  EXPECT_EQ(Shape{}.with_axis(0, 7), Shape{7});
}

TEST(Shape, PrintsForMessages) {
  EXPECT_EQ(to_string(Shape{2, 80}), "2x80");
  EXPECT_EQ(to_string(Shape{7}), "7");
  EXPECT_EQ(to_string(Shape{}), "scalar");
}

}  // namespace
}  // namespace tutti
