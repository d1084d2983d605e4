// The worked example of docs/caches.md, and that the page shows this code.

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cache/slot_state.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace tutti {
namespace {

/// A recurrent layer, h' = h + W x, of one frame a chunk.
class Accumulator {
 public:
  static constexpr int dim = 4;

  static std::vector<StreamStateSpec> streaming_state_specs() {
    return {{.name = "accumulator.h", .shape = {dim}}};
  }

  Accumulator(std::shared_ptr<const PackedLinear> weights, int max_lanes, Ops& ops)
      : weights_(std::move(weights)), h_(ops.allocate(DType::f32, {max_lanes, dim})) {}

  /// x is (lanes, dim), one frame of each of the streams that `states` has the lanes of.
  TensorView forward_chunk(Ops& ops, const TensorView& x, const SlotStateLanes& states) const {
    const SlotStateView state = states["accumulator.h"];
    const TensorView h = h_.view().slice(0, x.rows());
    state.gather(h);
    ops.linear(*weights_, x, {.residual = h}, h);
    state.scatter(h);
    return h;
  }

 private:
  std::shared_ptr<const PackedLinear> weights_;
  Tensor h_;
};

class SlotStateExample : public testing::Test {
 protected:
  Random random_{5};
  std::unique_ptr<Ops> ops_ = make_cpu_ops(cpu::GemmChoice::panel);
  Tensor weights_ = random_.tensor({Accumulator::dim, Accumulator::dim});
  Accumulator layer_{ops_->pack_linear(weights_, TensorView{}), 2, *ops_};
};

TEST_F(SlotStateExample, CarriesEachStreamsStateFromChunkToChunk) {
  Ops& ops = *ops_;
  const Accumulator& layer = layer_;
  const Tensor x = random_.tensor({2, Accumulator::dim});

  SlotStateCache cache(Accumulator::streaming_state_specs(), 32, 1, ops);
  cache.allocate_stream(7);  // at admission: h is zero
  cache.allocate_stream(3);
  const std::vector<int32_t> slots{7, 3};  // of a tick's lanes
  layer.forward_chunk(ops, x, cache.lanes(slots));
  cache.reset_stream(3);  // a new utterance of the same request
  const TensorView h = layer.forward_chunk(ops, x, cache.lanes(slots));
  cache.free_stream(7);  // at the end of the request

  for (int c = 0; c < Accumulator::dim; ++c) {
    float once[2] = {0, 0};
    for (const int lane : {0, 1}) {
      for (int k = 0; k < Accumulator::dim; ++k) {
        once[lane] += weights_.view()[c].f32()[k] * x.view()[lane].f32()[k];
      }
    }
    EXPECT_NEAR(h[0].f32()[c], 2 * once[0], 1e-5);
    EXPECT_NEAR(h[1].f32()[c], once[1], 1e-5);
  }
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(CachesPage, ShowsCodeThatIsTested) {
  const std::string page = read_file(TUTTI_TEST_DATA "/../../docs/caches.md");
  const std::string tested = read_file(TUTTI_TEST_DATA "/../cache/slot_state_example_test.cpp");
  const std::string fence = "```";
  int blocks = 0;
  for (size_t at = page.find(fence + "cpp\n"); at != std::string::npos; at = page.find(fence + "cpp\n", at)) {
    const size_t begin = page.find('\n', at) + 1;
    const size_t end = page.find(fence, begin);
    ASSERT_NE(end, std::string::npos);
    EXPECT_THAT(tested, testing::HasSubstr(page.substr(begin, end - begin)));
    at = end + fence.size();
    ++blocks;
  }
  EXPECT_EQ(blocks, 2);
}

}  // namespace
}  // namespace tutti
