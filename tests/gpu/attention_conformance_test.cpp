#include "tests/gpu/conformance.hpp"
#include "tests/gpu/paged_streams.hpp"

namespace tutti {
namespace {

using namespace paged;

class AttentionConformance : public OpsConformance {
 protected:
  void run(Batch& batch, const Shared& shared) {
    batch.run(shared, [&](const BatchLayout& layout, PagedKv kv, AttentionInputs in, const TensorView& out) {
      const TensorView host_k = kv.k, host_v = kv.v;
      const Tensor k = device(kv.k), v = device(kv.v), qkv = device(in.qkv);
      const Tensor u = device(in.pos_bias_u), w = device(in.pos_bias_v), positions = device(in.positions);
      const Tensor result = ops().allocate(DType::f32, out.shape);
      kv.k = k, kv.v = v;
      in.qkv = qkv, in.pos_bias_u = u, in.pos_bias_v = w, in.positions = positions;
      ops().paged_attention(layout, kv, in, result);
      ops().download(result, Random::values(out));
      ops().download(k, Random::values(host_k));
      ops().download(v, Random::values(host_v));
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, AttentionConformance,
                         testing::ValuesIn(serving_backends({"paged_attention"})), backend_name);

std::vector<Stream> random_streams(Random& random, const Geometry& geometry, int lanes) {
  std::vector<Stream> streams;
  for (int lane = 0; lane < lanes; ++lane) {
    streams.emplace_back(random, geometry, random.between(1, 20),
                         random.pick({0, 1, 16, 64, 127, 128, random.between(1, 200)}));
  }
  return streams;
}

TEST_P(AttentionConformance, MatchesADoubleReferenceAndWritesOnlyItsNewFrames) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const Geometry geometry = random_geometry(random);
    const Shared shared(random, geometry, 300);
    const std::vector<Stream> streams = random_streams(random, geometry, random.between(1, 3));
    std::vector<const Stream*> lanes;
    for (const Stream& s : streams) lanes.push_back(&s);
    Batch batch(random, geometry, lanes);
    run(batch, shared);
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      EXPECT_TRUE(
          close_to(Random::values(batch.output(lane)), reference(geometry, streams[lane], shared), 4e-6))
          << "lane " << lane << ", " << streams[lane].rows << " rows behind " << streams[lane].history;
    }
    batch.expect_only_new_frames_written();
  }
}

TEST_P(AttentionConformance, GivesAStreamTheSameBitsAloneAndAnywhereInACrowd) {
  Random random(5);
  SCOPED_TRACE(random.trace());
  const Geometry geometry = random_geometry(random);
  const Shared shared(random, geometry, 300);
  const std::vector<Stream> streams = random_streams(random, geometry, 3);
  std::vector<const Stream*> lanes;
  for (const int32_t i : random.permutation(3)) lanes.push_back(&streams[static_cast<size_t>(i)]);
  Batch crowd(random, geometry, lanes);
  run(crowd, shared);
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    Batch alone(random, geometry, {lanes[lane]});
    run(alone, shared);
    EXPECT_TRUE(same_bits(Random::values(alone.output(0)), Random::values(crowd.output(lane))));
  }
}

}  // namespace
}  // namespace tutti
