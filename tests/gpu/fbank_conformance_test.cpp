#include <algorithm>
#include <cfloat>
#include <cmath>

#include "gpu/cpu/cpu_ops.hpp"
#include "tests/gpu/conformance.hpp"

namespace tutti {
namespace {

class FbankConformance : public OpsConformance {
 protected:
  /// The features of streams of so many frames each, one behind the other.
  static std::vector<float> run(Ops& ops, const FbankTables& tables, const std::vector<int>& frames,
                                std::span<const float> samples) {
    const FbankOptions& options = tables.options;
    int total = 0;
    for (const int n : frames) total += n;
    const auto packed = ops.pack_fbank(tables);
    const Tensor out = ops.allocate(DType::f32, {total, options.num_mel_bins});
    std::vector<FbankJob> jobs;
    int begin = 0;
    for (const int n : frames) {
      jobs.push_back({samples.data() + begin * options.frame_shift(), n,
                      out.view().f32() + int64_t{begin} * options.num_mel_bins});
      begin += n;
    }
    std::ranges::reverse(jobs);
    ops.fbank(*packed, jobs);
    std::vector<float> features(static_cast<size_t>(out.shape().elements()));
    ops.download(out, features);
    return features;
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, FbankConformance, testing::ValuesIn(serving_backends({"fbank"})),
                         backend_name);

std::vector<float> noise(Random& random, const FbankOptions& options, int frames) {
  std::vector<float> samples(
      static_cast<size_t>(options.frame_length() + (frames - 1) * options.frame_shift()));
  for (float& s : samples) s = random.normal(0.1F);
  return samples;
}

TEST_P(FbankConformance, GivesTheCpusFeaturesAtEverySampleRate) {
  const auto cpu = make_cpu_ops();
  for (const int sample_rate : {8000, 16000, 44100}) {  // FFTs of 256, 512 and 2048 points
    Random random(static_cast<uint64_t>(sample_rate));
    SCOPED_TRACE(random.trace());
    FbankOptions options;
    options.sample_rate = sample_rate;
    options.num_mel_bins = 40;
    const FbankTables tables(options);
    const std::vector<float> samples = noise(random, options, 4);
    const std::vector<float> expected = run(*cpu, tables, {4}, samples);
    const std::vector<float> features = run(ops(), tables, {4}, samples);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(features[i], expected[i], 1e-4) << sample_rate << " Hz, value " << i;
    }
  }
}

TEST_P(FbankConformance, GivesAFrameTheSameBitsHoweverFramesAreGrouped) {
  Random random(2);
  const FbankTables tables{FbankOptions{}};
  const std::vector<float> samples = noise(random, tables.options, 12);
  const std::vector<float> whole = run(ops(), tables, {12}, samples);
  EXPECT_TRUE(same_bits(run(ops(), tables, {5, 0, 1, 6}, samples), whole));
}

TEST_P(FbankConformance, FloorsSilence) {
  const FbankTables tables{FbankOptions{}};
  const std::vector<float> samples(400, 0.0F);
  for (const float x : run(ops(), tables, {1}, samples)) EXPECT_NEAR(x, std::log(FLT_EPSILON), 1e-5);
}

using MeanConformance = OpsConformance;
INSTANTIATE_TEST_SUITE_P(Backends, MeanConformance, testing::ValuesIn(serving_backends({"mean_of_rows"})),
                         backend_name);

TEST_P(MeanConformance, IsOfAllValuesOfTheRowsFromEachOn) {
  Random random(3);
  const Tensor x = random.tensor({23, 37});
  const Tensor there = device(x);
  const std::vector<int32_t> rows{0, 20, 7, 7, 1};
  const Tensor means = ops().allocate(DType::f32, {5});
  ops().mean_of_rows(there, rows, 3, means);
  const std::vector<float> result = host(means);
  for (size_t i = 0; i < rows.size(); ++i) {
    double sum = 0;
    for (const float value : Random::values(x.view().slice(rows[i], 3))) sum += value;
    EXPECT_NEAR(result[i], sum / (3 * 37), 1e-6) << "row " << rows[i];
  }
}

using ReadConformance = OpsConformance;
INSTANTIATE_TEST_SUITE_P(Backends, ReadConformance, testing::ValuesIn(serving_backends({"read"})),
                         backend_name);

TEST_P(ReadConformance, BringsTensorsOfAnySizeAndTypeWithOneWaitWhereTheyAreSmall) {
  Random random(4);
  const Tensor small = random.tensor({3, 5});
  const Tensor large = random.tensor({1500, 1001});  // more than is copied at once
  const std::vector<int32_t> indices{4, 1};
  const Tensor ids = ops().allocate(DType::i32, {6});
  ops().index_fill(ids, 0, indices, 77);
  const Tensor small_there = device(small);
  const Tensor large_there = device(large);
  std::vector<float> a(15), b(15), c(1500 * 1001);
  std::vector<int32_t> d(6);
  const auto into = [](const TensorView& from, void* to) {
    return Reading{from, static_cast<std::byte*>(to)};
  };
  const int64_t waits = ops().device_use().waits;
  ops().read(std::vector{into(small_there, a.data()), into(ids, d.data()), into(small_there, b.data())});
  EXPECT_LE(ops().device_use().waits - waits, 1);
  ops().read(std::vector{into(large_there, c.data())});
  EXPECT_TRUE(same_bits(a, Random::values(small)));
  EXPECT_TRUE(same_bits(b, Random::values(small)));
  EXPECT_TRUE(same_bits(c, Random::values(large)));
  EXPECT_EQ(d, (std::vector<int32_t>{0, 77, 0, 0, 77, 0}));
}

}  // namespace
}  // namespace tutti
