#include "tests/gpu/conformance.hpp"

namespace tutti {
namespace {

/// Work that is repeated as a whole, where a device does so.
class RepeatConformance : public OpsConformance {
 protected:
  void SetUp() override {
    OpsConformance::SetUp();
    if (!IsSkipped()) ops().reserve(4, 64, 1000);
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, RepeatConformance,
                         testing::ValuesIn(serving_backends({"extend_with_context", "linear"})),
                         backend_name);

constexpr int channels = 40, context = 2, slots = 5;

TEST_P(RepeatConformance, GivesTheBitsOfEachOperationByItselfWhateverSlotsAreMeant) {
  Random random(1);
  SCOPED_TRACE(random.trace());
  const Tensor weight = random.tensor({channels, channels});
  const auto packed = ops().pack_linear(weight, {});
  const std::vector<int32_t> begins{0, 3, 7};
  const Tensor x = ops().allocate(DType::f32, {7, channels});
  const Tensor y = ops().allocate(DType::f32, x.shape());
  const Tensor first = random.tensor({slots, context, channels});
  const Tensor caches[] = {device(first), device(first)};
  const Tensor extended = ops().allocate(DType::f32, {7 + 2 * context, channels});
  std::vector<int32_t> meant;
  const Tensor* cache = nullptr;
  const std::function<void()> work = [&] {
    ops().linear(*packed, x, {}, y);
    ops().extend_with_context({begins}, y, meant, *cache, extended);
  };
  for (int time = 0; time < 5; ++time) {
    const Tensor values = random.tensor(x.shape());
    meant = {random.between(0, 1), random.between(2, 4)};
    ops().copy(device(values), x);
    cache = &caches[0];
    work();
    const std::vector<float> expected = host(extended);
    cache = &caches[1];
    ops().repeat(2, work);
    EXPECT_TRUE(same_bits(host(extended), expected)) << "time " << time;
  }
  EXPECT_TRUE(same_bits(host(caches[0]), host(caches[1])));
  // All but the first, which shows what there is to repeat.
  if (ops().most_padded_lanes() > 0) {
    EXPECT_EQ(ops().device_use().repeats, 4);
  }
}

TEST_P(RepeatConformance, DoesWhatIsAskedForWhereItIsSomethingElse) {
  Random random(2);
  const auto one = ops().pack_linear(random.tensor({channels, channels}), {});
  const auto other = ops().pack_linear(random.tensor({channels, channels}), {});
  const Tensor x = device(random.tensor({3, channels}));
  const Tensor y = ops().allocate(DType::f32, x.shape());
  for (const auto& packed : {one, one, other, other, one, one}) {
    ops().linear(*packed, x, {}, y);
    const std::vector<float> expected = host(y);
    ops().index_fill(y, 0, std::vector<int32_t>{0, 1, 2}, 0);
    ops().repeat(1, [&] { ops().linear(*packed, x, {}, y); });
    EXPECT_TRUE(same_bits(host(y), expected));
  }
}

}  // namespace
}  // namespace tutti
