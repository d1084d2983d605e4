#include <cmath>

#include "config/result.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "tests/gpu/conformance.hpp"

namespace tutti {
namespace {

constexpr float scale = 4.0F;

constexpr int halve(int n) { return (n - 1) / 2; }
constexpr int rows_of(int frames) { return halve(halve(frames)); }

struct Weights {
  Tensor conv1_weight, conv1_bias, conv2_weight, conv2_bias, out_weight, out_bias;

  Weights(Random& random, int d, int mel)
      : conv1_weight(random.tensor({d, 1, 3, 3}, 0.3F)),
        conv1_bias(random.tensor({d}, 0.3F)),
        conv2_weight(random.tensor({d, d, 3, 3}, 1.0F / std::sqrt(9.0F * static_cast<float>(d)))),
        conv2_bias(random.tensor({d}, 0.3F)),
        out_weight(random.tensor({d, d * rows_of(mel)}, 1.0F / std::sqrt(static_cast<float>(d * mel)))),
        out_bias(random.tensor({d}, 0.3F)) {}
  [[nodiscard]] SubsamplingWeights views() const {
    return {conv1_weight, conv1_bias, conv2_weight, conv2_bias, out_weight, out_bias};
  }
};

/// (channels, height, width), as the checkpoint's convolutions have it.
struct Maps {
  int channels, height, width;
  std::vector<double> values;

  Maps(int c, int h, int w) : channels(c), height(h), width(w), values(static_cast<size_t>(c * h * w)) {}
  double& at(int c, int h, int w) { return values[static_cast<size_t>((c * height + h) * width + w)]; }
};

Maps convolve_relu(Maps& in, const TensorView& weight, const TensorView& bias) {
  const auto channels = static_cast<int>(weight.shape[0]);
  Maps out(channels, halve(in.height), halve(in.width));
  for (int o = 0; o < channels; ++o) {
    for (int h = 0; h < out.height; ++h) {
      for (int w = 0; w < out.width; ++w) {
        double sum = bias.f32()[o];
        for (int c = 0; c < in.channels; ++c) {
          const float* taps = weight[o][c].f32();
          for (int t = 0; t < 9; ++t) sum += taps[t] * in.at(c, 2 * h + t / 3, 2 * w + t % 3);
        }
        out.at(o, h, w) = std::max(sum, 0.0);
      }
    }
  }
  return out;
}

std::vector<double> reference(const SubsamplingWeights& w, const TensorView& features) {
  Maps input(1, static_cast<int>(features.rows()), static_cast<int>(features.cols()));
  std::copy_n(features.f32(), input.values.size(), input.values.begin());
  Maps first = convolve_relu(input, w.conv1_weight, w.conv1_bias);
  Maps second = convolve_relu(first, w.conv2_weight, w.conv2_bias);
  std::vector<double> rows;
  for (int t = 0; t < second.height; ++t) {
    for (int64_t o = 0; o < w.out_weight.rows(); ++o) {
      double sum = w.out_bias.f32()[o];
      const float* weight = w.out_weight[o].f32();
      for (int c = 0; c < second.channels; ++c) {
        for (int f = 0; f < second.width; ++f) sum += *weight++ * second.at(c, t, f);
      }
      rows.push_back(scale * sum);
    }
  }
  return rows;
}

std::vector<int32_t> prefix_sums(const std::vector<int>& counts) {
  std::vector<int32_t> begin{0};
  for (const int n : counts) begin.push_back(begin.back() + n);
  return begin;
}

class SubsamplingConformance : public OpsConformance {
 protected:
  /// Lanes of the given numbers of frames, whose features lie back to back.
  std::vector<float> subsample(const PackedSubsampling& packed, int d, const std::vector<int>& frames,
                               const TensorView& features) {
    std::vector<int> counts;
    for (const int f : frames) counts.push_back(rows_of(f));
    const std::vector<int32_t> feature_begin = prefix_sums(frames);
    const std::vector<int32_t> row_begin = prefix_sums(counts);
    ops().reserve(static_cast<int>(frames.size()), row_begin.back(), 0);
    const Tensor out = ops().allocate(DType::f32, {row_begin.back(), d});
    ops().subsample(packed, {feature_begin}, device(features), {row_begin}, scale, out);
    return host(out);
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, SubsamplingConformance, testing::ValuesIn(backends({"subsample"})),
                         backend_name);

class SubsamplingRowIndependence : public SubsamplingConformance {};
INSTANTIATE_TEST_SUITE_P(Backends, SubsamplingRowIndependence,
                         testing::ValuesIn(serving_backends({"subsample"})), backend_name);

TEST_P(SubsamplingConformance, MatchesADoubleReferenceForWindowsOfAnyLength) {
  for (const auto& [d, mel] : {std::pair{8, 80}, std::pair{20, 80}, std::pair{33, 23}, std::pair{48, 40}}) {
    Random random(static_cast<uint64_t>(d));
    SCOPED_TRACE(random.trace());
    const Weights weights(random, d, mel);
    const auto packed = ops().pack_subsampling(weights.views(), mel);
    const std::vector<int> frames{7, 67, random.between(7, 67), 9, 8, 10, 11, random.between(7, 67)};
    const std::vector<int32_t> begin = prefix_sums(frames);
    const Tensor features = random.tensor({begin.back(), mel});
    std::vector<double> expected;
    for (size_t lane = 0; lane < frames.size(); ++lane) {
      const std::vector<double> rows =
          reference(weights.views(), features.view().slice(begin[lane], frames[lane]));
      expected.insert(expected.end(), rows.begin(), rows.end());
    }
    EXPECT_TRUE(close_to(subsample(*packed, d, frames, features), expected, 10 * GetParam().tolerance))
        << d << " channels";
  }
}

TEST_P(SubsamplingConformance, MatchesADoubleReferenceForOneLaneLongerThanTheScratch) {
  constexpr int d = 36;
  Random random(1);
  const Weights weights(random, d, 80);
  const auto packed = ops().pack_subsampling(weights.views(), 80);
  const Tensor features = random.tensor({768, 80});
  EXPECT_TRUE(close_to(subsample(*packed, d, {768}, features), reference(weights.views(), features),
                       10 * GetParam().tolerance));
}

TEST_P(SubsamplingRowIndependence, GivesALaneTheSameBitsInAnyCompany) {
  const int d = GetParam().slow ? 20 : 256;  // more rows than one pass takes, both between and within lanes
  Random random(2);
  SCOPED_TRACE(random.trace());
  const Weights weights(random, d, 80);
  const auto packed = ops().pack_subsampling(weights.views(), 80);
  std::vector<int> frames;
  for (int lane = 0; lane < 20; ++lane) frames.push_back(lane % 3 == 0 ? random.between(7, 67) : 67);
  const std::vector<int32_t> begin = prefix_sums(frames);
  const Tensor features = random.tensor({begin.back(), 80});
  const std::vector<float> together = subsample(*packed, d, frames, features);
  std::vector<float> apart;
  for (size_t lane = 0; lane < frames.size(); ++lane) {
    const TensorView window = features.view().slice(begin[lane], frames[lane]);
    const std::vector<float> rows = subsample(*packed, d, {frames[lane]}, window);
    apart.insert(apart.end(), rows.begin(), rows.end());
  }
  EXPECT_TRUE(same_bits(together, apart));
}

TEST_P(SubsamplingRowIndependence, GivesARowTheSameBitsAmongAnyNumberOfRows) {
  constexpr int d = 12, mel = 23;
  Random random(4);
  SCOPED_TRACE(random.trace());
  const Weights weights(random, d, mel);
  const auto packed = ops().pack_subsampling(weights.views(), mel);
  const auto frames_of = [](int rows) { return 4 * rows + 3; };
  const Tensor features = random.tensor({most_lanes * frames_of(most_lane_rows), mel});
  const std::vector<float> all =
      subsample(*packed, d, std::vector<int>(most_lanes, frames_of(most_lane_rows)), features);
  for (int rows = 1; rows < most_rows; rows += GetParam().slow ? 21 : 1) {
    std::vector<int> frames;
    for (const int lane_rows : full_lanes(rows)) frames.push_back(frames_of(lane_rows));
    const int total = std::accumulate(frames.begin(), frames.end(), 0);
    const std::vector<float> some = subsample(*packed, d, frames, features.view().slice(0, total));
    ASSERT_TRUE(same_bits(some, std::span(all).first(some.size()))) << rows << " rows";
  }
}

TEST_P(SubsamplingRowIndependence, GivesALaneTheSameBitsAmongMoreThanThereIsScratchFor) {
  if (GetParam().slow) GTEST_SKIP() << "takes too long";
  constexpr int d = 16, frames = 803, lanes = 60;
  Random random(5);
  const Weights weights(random, d, 80);
  const auto packed = ops().pack_subsampling(weights.views(), 80);
  const Tensor features = random.tensor({lanes * frames, 80});
  const std::vector<float> together = subsample(*packed, d, std::vector<int>(lanes, frames), features);
  const size_t lane_values = together.size() / lanes;
  for (int lane = 0; lane < lanes; ++lane) {
    const std::vector<float> alone =
        subsample(*packed, d, {frames}, features.view().slice(lane * frames, frames));
    ASSERT_TRUE(
        same_bits(alone, std::span(together).subspan(static_cast<size_t>(lane) * lane_values, lane_values)))
        << "lane " << lane;
  }
}

TEST_P(SubsamplingRowIndependence, GivesAWindowTheSameBitsAsTheLongLaneItIsCutFrom) {
  const int d = GetParam().slow ? 16 : 72;
  Random random(3);
  SCOPED_TRACE(random.trace());
  const Weights weights(random, d, 80);
  const auto packed = ops().pack_subsampling(weights.views(), 80);
  const Tensor features = random.tensor({768, 80});
  const std::vector<float> whole = subsample(*packed, d, {768}, features);
  for (int trial = 0; trial < 20; ++trial) {
    const int first = random.between(0, rows_of(768) - 1);
    const int rows = random.between(1, rows_of(768) - first);
    const int frames = 4 * rows + 3;
    const std::vector<float> cut = subsample(*packed, d, {frames}, features.view().slice(4 * first, frames));
    EXPECT_TRUE(same_bits(cut, std::span(whole).subspan(static_cast<size_t>(first * d), cut.size())))
        << rows << " rows from " << first;
  }
}

TEST(CpuSubsampling, RefusesAModelTooWideForItsScratch) {
  constexpr int d = 3000;
  const Tensor conv1 = host_tensor(DType::f32, {d, 1, 3, 3});
  SubsamplingWeights weights;
  weights.conv1_weight = conv1;
  EXPECT_THROW(static_cast<void>(make_cpu_ops()->pack_subsampling(weights, 80)), SetupError);
}

using Cmvn = OpsConformance;
INSTANTIATE_TEST_SUITE_P(Backends, Cmvn, testing::ValuesIn(serving_backends({"cmvn"})), backend_name);

TEST_P(Cmvn, NormalisesAndPacksTheLanesFeatures) {
  constexpr int mel = 21;
  Random random(5);
  const Tensor a = random.tensor({3, mel});
  const Tensor b = random.tensor({5, mel});
  const Tensor mean = random.tensor({mel});
  const Tensor istd = random.tensor({mel});
  const std::vector<int32_t> begin{0, 3, 8};
  const Tensor device_a = device(a);
  const Tensor device_b = device(b);
  const std::vector<const float*> lanes{device_a.view().f32(), device_b.view().f32()};
  const Tensor out = ops().allocate(DType::f32, {8, mel});
  ops().cmvn({begin}, lanes, device(mean), device(istd), out);
  std::vector<double> expected;
  for (const Tensor* lane : {&a, &b}) {
    for (size_t i = 0; const float x : Random::values(*lane)) {
      const size_t bin = i++ % mel;
      expected.push_back((static_cast<double>(x) - mean.view().f32()[bin]) * istd.view().f32()[bin]);
    }
  }
  EXPECT_TRUE(close_to(host(out), expected, 1e-6));
}

}  // namespace
}  // namespace tutti
