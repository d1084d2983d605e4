#include "gpu/weight_type.hpp"

#include <gmock/gmock.h>

#include <stdexcept>

namespace tutti {
namespace {

TEST(WeightType, IsReadByItsName) {
  for (const WeightType type :
       {WeightType::fp32, WeightType::bf16, WeightType::fp16, WeightType::int8, WeightType::fp8}) {
    EXPECT_EQ(parse_weight_type(weight_type_name(type)), type);
  }
  EXPECT_EQ(weight_type_name(WeightType::int8), "int8");
  EXPECT_EQ(weight_type_name(WeightType::fp8), "fp8");
}

TEST(WeightType, RefusesAnotherNameAndSaysWhatIsAccepted) {
  EXPECT_THAT([] { (void)parse_weight_type("int4"); },
              testing::ThrowsMessage<std::invalid_argument>(testing::AllOf(
                  testing::HasSubstr("int4"), testing::HasSubstr("fp32, bf16, fp16, int8, fp8"))));
}

}  // namespace
}  // namespace tutti
