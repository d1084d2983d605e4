#include "cache/cnn_cache.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/cache/host_ops.hpp"
#include "tests/cache/throws.hpp"

namespace tutti {
namespace {

using testing::Each;

constexpr int layers = 2;
constexpr int slots = 3;
constexpr int context = 4;
constexpr int dim = 5;
const Shape shape_of_stream{layers, 1, context, dim};

class CnnCacheManagerTest : public testing::Test {
 protected:
  [[nodiscard]] std::vector<float> read(int slot) const {
    const Tensor values = host_tensor(DType::f32, shape_of_stream);
    cnn_.read(slot, values);
    return {values.view().f32(), values.view().f32() + shape_of_stream.elements()};
  }
  void update(int slot, const std::vector<float>& values) {
    cnn_.update(slot, host_tensor(shape_of_stream, values));
  }
  [[nodiscard]] static std::vector<float> counting_from(float first) {
    std::vector<float> values(static_cast<size_t>(shape_of_stream.elements()));
    std::iota(values.begin(), values.end(), first);
    return values;
  }

  HostOps ops_;
  CnnCacheManager cnn_{{.num_layers = layers,
                        .n_kv_head = 1,
                        .head_dim = dim,
                        .hidden_dim = dim,
                        .kernel_size = context + 1,
                        .max_streams = slots},
                       ops_};
};

TEST_F(CnnCacheManagerTest, AStreamStartsWithZeros) {
  cnn_.allocate_stream(1);
  EXPECT_THAT(read(1), Each(0.0F));
}

TEST_F(CnnCacheManagerTest, ASlotIsZeroForItsNextStream) {
  cnn_.allocate_stream(1);
  update(1, counting_from(1));
  cnn_.free_stream(1);
  cnn_.allocate_stream(1);
  EXPECT_THAT(read(1), Each(0.0F));
}

TEST_F(CnnCacheManagerTest, ResetZeroesOneStreamOnly) {
  for (const int slot : {0, 1, 2}) {
    cnn_.allocate_stream(slot);
    update(slot, counting_from(100.0F * static_cast<float>(slot + 1)));
  }
  cnn_.reset_stream(1);
  EXPECT_EQ(read(0), counting_from(100));
  EXPECT_THAT(read(1), Each(0.0F));
  EXPECT_EQ(read(2), counting_from(300));
}

TEST_F(CnnCacheManagerTest, ALayersViewIsTheSlotsContextSideBySide) {
  cnn_.allocate_stream(2);
  update(2, counting_from(1));
  for (int l = 0; l < layers; ++l) {
    const TensorView view = cnn_.layer(l);
    EXPECT_EQ(view.shape, (Shape{slots, context, dim}));
    EXPECT_EQ(view[2].f32()[0], 1.0F + static_cast<float>(l * context * dim));
    EXPECT_EQ(view[2][context - 1].f32()[dim - 1], static_cast<float>((l + 1) * context * dim));
  }
}

TEST_F(CnnCacheManagerTest, ReadsWhatTheForwardPassWroteInPlace) {
  cnn_.allocate_stream(0);
  cnn_.layer(1)[0][2].f32()[3] = 42;
  EXPECT_EQ(read(0)[(1 * context + 2) * dim + 3], 42.0F);
}

TEST_F(CnnCacheManagerTest, RefusesASlotThatIsTaken) {
  cnn_.allocate_stream(1);
  expect_throws<std::invalid_argument>([&] { cnn_.allocate_stream(1); }, "slot 1", "already");
}

TEST_F(CnnCacheManagerTest, ARefusedAllocationLeavesTheStreamsContext) {
  cnn_.allocate_stream(1);
  update(1, counting_from(1));
  EXPECT_THROW(cnn_.allocate_stream(1), std::invalid_argument);
  EXPECT_EQ(read(1), counting_from(1));
}

TEST_F(CnnCacheManagerTest, RefusesASlotItDoesNotHave) {
  expect_throws<std::invalid_argument>([&] { cnn_.allocate_stream(3); }, "slot 3", "[0, 3)");
  expect_throws<std::invalid_argument>([&] { cnn_.allocate_stream(-1); }, "slot -1", "[0, 3)");
}

TEST_F(CnnCacheManagerTest, DoesNotKnowASlotThatIsFree) {
  const Tensor values = host_tensor(DType::f32, shape_of_stream);
  for (const int slot : {-1, 0, 3}) {
    expect_throws<UnknownStream>([&] { cnn_.free_stream(slot); }, "free_stream", "not allocated");
    expect_throws<UnknownStream>([&] { cnn_.reset_stream(slot); }, "reset_stream", "slot");
    expect_throws<UnknownStream>([&] { cnn_.read(slot, values); }, "slot", "not allocated");
    expect_throws<UnknownStream>([&] { cnn_.update(slot, values); }, "slot", "not allocated");
  }
}

TEST_F(CnnCacheManagerTest, StatesExpectedAndActualShapeOnAMismatch) {
  cnn_.allocate_stream(0);
  const Tensor values = host_tensor(DType::f32, {layers, 1, context - 1, dim});
  expect_throws<std::invalid_argument>([&] { cnn_.update(0, values); }, "2x1x3x5", "2x1x4x5");
  expect_throws<std::invalid_argument>([&] { cnn_.read(0, values); }, "2x1x3x5", "2x1x4x5");
}

TEST_F(CnnCacheManagerTest, RefusesALayerItDoesNotHave) {
  expect_throws<std::out_of_range>([&] { (void)cnn_.layer(2); }, "layer 2", "[0, 2)");
}

TEST(CnnCacheManager, HasScratchSlotsBehindTheStreams) {
  HostOps ops;
  CnnCacheManager cnn({.max_streams = 4}, ops, 1);
  EXPECT_EQ(cnn.scratch_slot(), 4);
  EXPECT_EQ(cnn.layer(0).shape, (Shape{5, 14, 256}));
  expect_throws<std::invalid_argument>([&] { cnn.allocate_stream(4); }, "slot 4", "[0, 4)");
}

TEST(CnnCacheManager, AConvolutionOfOneFrameHasNoContext) {
  HostOps ops;
  CnnCacheManager cnn({.kernel_size = 1}, ops);
  cnn.allocate_stream(0);
  cnn.update(0, host_tensor(DType::f32, {12, 1, 0, 256}));
  EXPECT_EQ(cnn.layer(0).shape, (Shape{32, 0, 256}));
}

}  // namespace
}  // namespace tutti
