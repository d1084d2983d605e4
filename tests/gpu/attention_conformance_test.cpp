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

  /// Of the streams as lanes of one batch.
  void expect_reference(Random& random, const Geometry& geometry, const Shared& shared,
                        const std::vector<Stream>& streams, double tolerance) {
    std::vector<const Stream*> lanes;
    for (const Stream& s : streams) lanes.push_back(&s);
    Batch batch(random, geometry, lanes);
    run(batch, shared);
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      EXPECT_TRUE(
          close_to(Random::values(batch.output(lane)), reference(geometry, streams[lane], shared), tolerance))
          << "lane " << lane << ", " << streams[lane].rows << " rows behind " << streams[lane].history;
    }
    batch.expect_only_new_frames_written();
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
    expect_reference(random, geometry, shared, random_streams(random, geometry, random.between(1, 3)), 4e-6);
  }
}

TEST_P(AttentionConformance, MatchesADoubleReferenceForHeadsOfAnyWidthAndLanesOfAnyNumberOfRows) {
  for (const int head_dim : {1, 32, 33, 64, 65, 96, 128, 200, 256}) {
    Random random(static_cast<uint64_t>(head_dim));
    SCOPED_TRACE(random.trace());
    const Geometry geometry{2, head_dim, 4};
    const Shared shared(random, geometry, 60);
    std::vector<Stream> streams;
    for (int rows = 1; rows <= 6; ++rows) streams.emplace_back(random, geometry, rows, random.between(0, 20));
    // Scores are as wide as the root of a head is.
    expect_reference(random, geometry, shared, streams, 1e-5);
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

TEST_P(AttentionConformance, GivesAStreamTheSameBitsAmongAnyNumberOfRows) {
  Random random(6);
  SCOPED_TRACE(random.trace());
  const Geometry geometry{2, 18, 16};
  const Shared shared(random, geometry, 300);
  // A stream's rows attend to each other, so that the last one has to be alone with as many.
  std::vector<Stream> full, last;
  for (int lane = 0; lane < most_lanes; ++lane) full.emplace_back(random, geometry, most_lane_rows, 5 * lane);
  for (int rows = 1; rows < most_lane_rows; ++rows) last.emplace_back(random, geometry, rows, 40);
  const auto alone = [&](const std::vector<Stream>& streams) {
    std::vector<std::vector<float>> outputs;
    for (const Stream& stream : streams) {
      Batch batch(random, geometry, {&stream});
      run(batch, shared);
      const std::span<const float> output = Random::values(batch.output(0));
      outputs.emplace_back(output.begin(), output.end());
    }
    return outputs;
  };
  const std::vector<std::vector<float>> full_alone = alone(full), last_alone = alone(last);
  for (int rows = 1; rows <= most_rows; rows += GetParam().slow ? 21 : 1) {
    std::vector<const Stream*> lanes;
    for (int lane = 0; lane < rows / most_lane_rows; ++lane)
      lanes.push_back(&full[static_cast<size_t>(lane)]);
    const size_t rest = static_cast<size_t>(rows % most_lane_rows);
    if (rest != 0) lanes.push_back(&last[rest - 1]);
    Batch crowd(random, geometry, lanes);
    run(crowd, shared);
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      const bool is_full = lanes[lane]->rows == most_lane_rows;
      ASSERT_TRUE(
          same_bits(Random::values(crowd.output(lane)), is_full ? full_alone[lane] : last_alone[rest - 1]))
          << rows << " rows, lane " << lane;
    }
  }
}

}  // namespace
}  // namespace tutti
