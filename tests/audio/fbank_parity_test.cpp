#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numbers>
#include <span>
#include <string>

#include "audio/audio_file.hpp"
#include "audio/fbank.hpp"

namespace tutti {
namespace {

/// Kaldi's filter bank in the order its documentation gives the steps, in double precision, with a Fourier
/// transform by definition: slow and plain, so that what is compared is the tables.
class PlainFbank {
 public:
  explicit PlainFbank(const FbankTables& tables) : tables_(tables) {
    const int size = tables.options.fft_size();
    for (int i = 0; i < size; ++i) roots_.push_back(std::polar(1.0, -2 * std::numbers::pi * i / size));
  }

  [[nodiscard]] std::vector<double> frame(std::span<const float> samples) const {
    const auto windowed = prepare(samples);
    std::vector<double> power;
    for (size_t bin = 0; bin < roots_.size() / 2; ++bin) {
      std::complex<double> sum = 0;
      for (size_t n = 0; n < windowed.size(); ++n) sum += windowed[n] * roots_[bin * n % roots_.size()];
      power.push_back(std::norm(sum));
    }
    std::vector<double> mel;
    for (const auto& filter : tables_.filters) {
      double energy = 0;
      for (size_t i = 0; i < filter.weights.size(); ++i) {
        energy += filter.weights[i] * power[static_cast<size_t>(filter.first_bin) + i];
      }
      mel.push_back(std::log(std::max<double>(energy, std::numeric_limits<float>::epsilon())));
    }
    return mel;
  }

 private:
  [[nodiscard]] std::vector<double> prepare(std::span<const float> samples) const {
    double mean = 0;
    for (const float sample : samples) mean += 32768.0 * sample / static_cast<double>(samples.size());
    std::vector<double> centered;
    for (const float sample : samples) centered.push_back(32768.0 * sample - mean);
    std::vector<double> windowed(samples.size());
    for (size_t n = 0; n < samples.size(); ++n) {
      const double before = centered[n == 0 ? 0 : n - 1];
      windowed[n] = (centered[n] - tables_.options.preemphasis * before) * tables_.window[n];
    }
    return windowed;
  }

  const FbankTables& tables_;
  std::vector<std::complex<double>> roots_;
};

/// The only tensor of the file, `feats` (frames, 80) F32: what follows the length-prefixed header.
std::vector<float> read_features(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  uint64_t header_bytes = 0;
  file.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
  const uint64_t data = sizeof(header_bytes) + header_bytes;
  std::vector<float> values((std::filesystem::file_size(path) - data) / sizeof(float));
  file.seekg(static_cast<std::streamoff>(data));
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
  EXPECT_TRUE(file) << path;
  return values;
}

class FbankParity : public ::testing::TestWithParam<const char*> {};

TEST_P(FbankParity, TablesGiveTheReferenceFeatures) {
  const auto folder = std::filesystem::path(TUTTI_TEST_DATA) / "fbank";
  const auto expected = read_features(folder / (GetParam() + std::string(".safetensors")));
  auto file = AudioFile::open(folder / (GetParam() + std::string(".wav")));
  ASSERT_TRUE(file);
  std::vector<float> samples;
  file->read(1 << 20, samples);

  const FbankTables tables{FbankOptions{}};
  const PlainFbank fbank(tables);
  const int64_t frames = tables.options.frames(static_cast<int64_t>(samples.size()));
  ASSERT_EQ(static_cast<size_t>(frames) * 80, expected.size());
  double worst = 0;
  size_t loose = 0;
  for (size_t f = 0; f < static_cast<size_t>(frames); ++f) {
    const auto row = fbank.frame(std::span(samples).subspan(f * 160, 400));
    for (size_t m = 0; m < row.size(); ++m) {
      const double difference = std::abs(row[m] - expected[f * 80 + m]);
      worst = std::max(worst, difference);
      loose += difference > 3e-4 ? 1 : 0;
    }
  }
  EXPECT_LE(worst, 2e-3);
  EXPECT_LE(static_cast<double>(loose), 0.001 * static_cast<double>(expected.size()));
}

INSTANTIATE_TEST_SUITE_P(References, FbankParity,
                         ::testing::Values("libri-19-198-0000", "libri-2136-5147-0012",
                                           "libri-1867-154075-0014", "silence-square"));

}  // namespace
}  // namespace tutti
