#include "gpu/cpu/attention.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/gpu/every_target.hpp"
#include "tests/gpu/paged_streams.hpp"

namespace tutti {
namespace {

using namespace paged;

void attend(const BatchLayout& layout, const PagedKv& kv, const AttentionInputs& in, const TensorView& out) {
  std::vector<float> scratch(cpu::attention_scratch_floats(static_cast<int>(kv.k.shape[3])), NAN);
  cpu::paged_attention(layout, kv, in, out, scratch);
}

TEST(PagedAttention, MatchesADoubleReferenceAndWritesOnlyItsNewFrames) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const Geometry geometry = random_geometry(random);
    const Shared shared(random, geometry, 500);
    std::vector<Stream> streams;
    for (int lane = random.between(1, 4); lane > 0; --lane) {
      streams.emplace_back(random, geometry, random.between(1, 70),
                           random.pick({0, 1, 16, 64, 127, 128, random.between(1, 400)}));
    }
    std::vector<const Stream*> lanes;
    for (const Stream& s : streams) lanes.push_back(&s);
    on_every_target([&] {
      Batch batch(random, geometry, lanes);
      batch.run(shared, attend);
      for (size_t lane = 0; lane < lanes.size(); ++lane) {
        EXPECT_TRUE(
            close_to(Random::values(batch.output(lane)), reference(geometry, streams[lane], shared), 4e-6))
            << "lane " << lane << ", " << streams[lane].rows << " rows behind " << streams[lane].history;
      }
      batch.expect_only_new_frames_written();
    });
  }
}

TEST(PagedAttention, GivesAStreamTheSameBitsAloneAndAnywhereInACrowd) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const Geometry geometry = random_geometry(random);
    const Shared shared(random, geometry, 500);
    std::vector<Stream> streams;
    for (int lane = 0; lane < 5; ++lane) {
      streams.emplace_back(random, geometry, random.between(1, 40), random.between(0, 300));
    }
    std::vector<const Stream*> lanes;
    for (const int32_t i : random.permutation(5)) lanes.push_back(&streams[static_cast<size_t>(i)]);
    on_every_target([&] {
      Batch crowd(random, geometry, lanes);
      crowd.run(shared, attend);
      for (size_t lane = 0; lane < lanes.size(); ++lane) {
        Batch alone(random, geometry, {lanes[lane]});
        alone.run(shared, attend);
        EXPECT_TRUE(same_bits(Random::values(alone.output(0)), Random::values(crowd.output(lane))));
      }
    });
  }
}

TEST(PagedAttention, SurvivesScoresFarBeyondTheRangeOfExp) {
  Random random(3);
  const Geometry geometry{2, 16, 4};
  const Shared shared(random, geometry, 400);
  Stream stream(random, geometry, 5, 300);
  for (float& x : Random::values(stream.qkv)) x *= 30.0F;  // scores of several hundred
  on_every_target([&] {
    Batch batch(random, geometry, {&stream});
    batch.run(shared, attend);
    EXPECT_TRUE(close_to(Random::values(batch.output(0)), reference(geometry, stream, shared), 2e-4));
  });
}

}  // namespace
}  // namespace tutti
