#include "tests/gpu/conformance.hpp"

namespace tutti {
namespace {

using Tokens = OpsConformance;

TEST_P(Tokens, AreEmbeddedAsTheirRowPlusThatOfTheirPlace) {
  Random random(1);
  const Tensor table = random.tensor({5, 12});
  const Tensor positions = random.tensor({3, 12});
  const std::vector<int32_t> ids = {4, 0, 4, 2};
  const std::vector<int32_t> at = {0, 2, 1, 1};
  const Tensor out = ops().allocate(DType::f32, {4, 12});
  ops().embed_tokens(device(table), ids, device(positions), at, out);
  const std::vector<float> embedded = host(out);
  for (size_t row = 0; row < ids.size(); ++row) {
    for (size_t i = 0; i < 12; ++i) {
      EXPECT_EQ(embedded[row * 12 + i], table.view()[ids[row]].f32()[i] + positions.view()[at[row]].f32()[i]);
    }
  }
}

TEST_P(Tokens, OneValueOfEachRowIsPicked) {
  Random random(2);
  const Tensor x = random.tensor({3, 7});
  const std::vector<int32_t> columns = {6, 0, 3};
  std::vector<float> values(3);
  ops().pick(device(x), columns, values);
  for (int64_t row = 0; row < 3; ++row) {
    EXPECT_EQ(values[static_cast<size_t>(row)], x.view()[row].f32()[columns[static_cast<size_t>(row)]]);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Tokens, testing::ValuesIn(serving_backends({"embed_tokens", "pick"})),
                         backend_name);

}  // namespace
}  // namespace tutti
