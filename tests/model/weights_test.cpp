#include "model/weights.hpp"

#include <gmock/gmock.h>

#include "config/result.hpp"
#include "model/bfloat16.hpp"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

WeightMap two_weights() {
  WeightMap weights("final.pt");
  weights.add("b", host_tensor({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}));
  weights.add("a", host_tensor({1}, std::vector<float>{7}));
  return weights;
}

TEST(WeightMap, HandsOutTheValuesOfANamedTensor) {
  WeightMap weights = two_weights();
  const TensorView taken = weights.take("b", {2, 3});
  EXPECT_EQ(taken.shape, Shape({2, 3}));
  EXPECT_EQ(taken.f32()[5], 6);
  EXPECT_EQ(weights.take("a").f32()[0], 7);
}

TEST(WeightMap, ReportsTheNamesNobodyTookInOrder) {
  WeightMap weights = two_weights();
  EXPECT_THAT(weights.unused(), ElementsAre("a", "b"));
  (void)weights.take("a");
  EXPECT_THAT(weights.unused(), ElementsAre("b"));
  weights.ignore("b");
  EXPECT_THAT(weights.unused(), IsEmpty());
}

TEST(WeightMap, NamesFileKeyAndBothShapesOfAMisfit) {
  WeightMap weights = two_weights();
  EXPECT_THAT(
      [&] {
        (void)weights.take("b", {3, 2});
      },
      ThrowsMessage<SetupError>(StrEq("final.pt: 'b' has shape 2x3; 3x2 is expected")));
}

TEST(WeightMap, NamesAMissingTensor) {
  WeightMap weights = two_weights();
  EXPECT_THAT([&] { (void)weights.take("c"); }, ThrowsMessage<SetupError>(StrEq("final.pt: 'c' is missing")));
}

TEST(WeightMap, RefusesTensorsThatAreNotFloats) {
  WeightMap weights("final.pt");
  weights.add("counter", host_tensor(DType::i32, {1}));
  EXPECT_THAT(
      [&] { (void)weights.take("counter"); },
      ThrowsMessage<SetupError>(StrEq("final.pt: 'counter' is of neither type float32 nor bfloat16")));
}

TEST(WeightMap, WidensBfloat16WhenItIsTaken) {
  WeightMap weights("model.safetensors");
  weights.add("w", narrow_to_bfloat16(host_tensor({2, 1}, std::vector<float>{1.5F, -0.25F})));
  EXPECT_EQ(weights.views().at("w").dtype, DType::bf16);
  EXPECT_THROW((void)weights.take("w", {1, 2}), SetupError);
  EXPECT_EQ(weights.views().at("w").dtype, DType::bf16) << "refused, not widened";
  const TensorView taken = weights.take("w", {2, 1});
  EXPECT_THAT(std::vector<float>(taken.f32(), taken.f32() + 2), ElementsAre(1.5F, -0.25F));
  EXPECT_EQ(weights.take("w").data, taken.data) << "widened once";
}

TEST(WeightMap, HandsOutMemoryOfAnotherOwnerWithoutACopy) {
  const auto owner = std::make_shared<const Tensor>(host_tensor({1}, std::vector<float>{7}));
  WeightMap weights("model.safetensors");
  weights.add("a", *owner, owner);
  EXPECT_EQ(weights.take("a").data, owner->view().data);
  EXPECT_EQ(owner.use_count(), 2);
}

TEST(WeightMap, RefusesANameThatIsAlreadyThere) {
  WeightMap weights = two_weights();
  EXPECT_THAT([&] { weights.add("a", host_tensor(DType::f32, {1})); },
              ThrowsMessage<SetupError>(StrEq("final.pt: 'a' appears twice")));
}

}  // namespace
}  // namespace tutti
