#include "gpu/cpu/fbank.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <complex>
#include <fstream>
#include <numbers>

#include "audio/audio_file.hpp"
#include "tests/gpu/every_target.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace tutti {
namespace {

std::vector<float> read_samples(const std::string& path) {
  Result<AudioFile> file = AudioFile::open(path);
  EXPECT_TRUE(file.has_value()) << path;
  std::vector<float> samples;
  file->read(1 << 20, samples);
  return samples;
}

/// The only tensor of a safetensors file: what follows the header.
std::vector<float> read_only_tensor(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  uint64_t header = 0;
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  file.seekg(static_cast<std::streamoff>(header), std::ios::cur);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

std::vector<float> features(const FbankTables& tables, std::span<const float> samples) {
  const auto frames = static_cast<int>(tables.options.frames(static_cast<int64_t>(samples.size())));
  std::vector<float> out(static_cast<size_t>(frames * tables.options.num_mel_bins));
  const cpu::FbankPlan plan(tables);
  std::vector<float> scratch(plan.scratch_floats());
  const std::vector<FbankJob> jobs{{samples.data(), frames, out.data()}};
  cpu::fbank(plan, jobs, scratch);
  return out;
}

class FbankParityTest : public testing::TestWithParam<const char*> {};

TEST_P(FbankParityTest, MatchesTorchaudio) {
  const std::string base = std::string(TUTTI_TEST_DATA) + "/fbank/" + GetParam();
  const std::vector<float> actual = features(FbankTables{FbankOptions{}}, read_samples(base + ".wav"));
  const std::vector<float> expected = read_only_tensor(base + ".safetensors");
  ASSERT_EQ(actual.size(), expected.size());
  float largest = 0;
  size_t beyond = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const float difference = std::abs(actual[i] - expected[i]);
    largest = std::max(largest, difference);
    beyond += difference > 3e-4F;
  }
  RecordProperty("max_abs_diff", std::to_string(largest));
  EXPECT_LE(largest, 2e-3F);
  EXPECT_LE(static_cast<double>(beyond), 0.001 * static_cast<double>(actual.size()));
}

INSTANTIATE_TEST_SUITE_P(Recordings, FbankParityTest,
                         testing::Values("libri-19-198-0000", "libri-2136-5147-0012",
                                         "libri-1867-154075-0014", "silence-square"),
                         [](const auto& is) {
                           std::string name = is.param;
                           std::erase(name, '-');
                           return name;
                         });

/// One frame in double, with a transform straight from the definition.
std::vector<double> reference(const FbankTables& tables, const float* samples) {
  const size_t length = tables.window.size();
  const int size = tables.options.fft_size();
  std::vector<double> x(samples, samples + length);
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(length);
  for (double& s : x) s = (s - mean) * 32768.0;
  for (size_t n = length; n-- > 0;)
    x[n] -= static_cast<double>(tables.options.preemphasis) * x[n > 0 ? n - 1 : 0];
  for (size_t n = 0; n < length; ++n) x[n] *= static_cast<double>(tables.window[n]);
  std::vector<double> power;
  for (int k = 0; k <= size / 2; ++k) {
    std::complex<double> sum = 0;
    for (size_t n = 0; n < length; ++n) {
      sum += x[n] * std::polar(1.0, -2.0 * std::numbers::pi * k * static_cast<double>(n) / size);
    }
    power.push_back(std::norm(sum));
  }
  std::vector<double> out;
  for (const FbankTables::MelFilter& filter : tables.filters) {
    double energy = 0;
    for (size_t i = 0; i < filter.weights.size(); ++i) {
      energy += static_cast<double>(filter.weights[i]) * power[static_cast<size_t>(filter.first_bin) + i];
    }
    out.push_back(std::log(std::max(energy, static_cast<double>(FLT_EPSILON))));
  }
  return out;
}

TEST(Fbank, MatchesADoubleReferenceAtEverySampleRate) {
  for (const int sample_rate : {8000, 16000, 44100}) {  // FFTs of 256, 512 and 2048 points
    Random random(static_cast<uint64_t>(sample_rate));
    SCOPED_TRACE(random.trace());
    FbankOptions options;
    options.sample_rate = sample_rate;
    options.num_mel_bins = 40;
    const FbankTables tables(options);
    std::vector<float> samples(static_cast<size_t>(options.frame_length() + 4 * options.frame_shift()));
    for (float& s : samples) s = random.normal(0.1F);
    std::vector<double> expected;
    for (int f = 0; f < 5; ++f) {
      const std::vector<double> frame = reference(tables, samples.data() + f * options.frame_shift());
      expected.insert(expected.end(), frame.begin(), frame.end());
    }
    on_every_target([&] { EXPECT_TRUE(close_to(features(tables, samples), expected, 5e-6)) << sample_rate; });
  }
}

TEST(Fbank, GivesAFrameTheSameBitsHoweverFramesAreGrouped) {
  Random random(8);
  const FbankTables tables{FbankOptions{}};
  const int frames = 45, mel = 80;
  std::vector<float> samples(static_cast<size_t>(400 + 160 * (frames - 1)));
  for (float& s : samples) s = random.normal(0.1F);
  const std::vector<float> whole = features(tables, samples);
  const cpu::FbankPlan plan(tables);
  std::vector<float> scratch(plan.scratch_floats());
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<float> out(whole.size());
    std::vector<FbankJob> jobs;
    for (int begin = 0; begin < frames;) {
      const int n = std::min(random.between(0, 20), frames - begin);
      jobs.push_back({samples.data() + begin * 160, n, out.data() + begin * mel});
      begin += n;
    }
    std::ranges::reverse(jobs);
    cpu::fbank(plan, jobs, scratch);
    EXPECT_TRUE(same_bits(out, whole)) << "trial " << trial;
  }
}

}  // namespace
}  // namespace tutti
