#include "audio/resampler.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <random>
#include <span>
#include <string>

#include "audio/audio_file.hpp"

namespace tutti {
namespace {

struct Rates {
  int in;
  int out;
};

std::vector<float> noise(size_t count, std::mt19937& random) {
  std::uniform_real_distribution<float> sample(-0.5F, 0.5F);
  std::vector<float> signal(count);
  for (auto& value : signal) value = sample(random);
  return signal;
}

std::vector<float> resample(Resampler& resampler, std::span<const float> in) {
  std::vector<float> out;
  resampler.process(in, out);
  resampler.flush(out);
  return out;
}

std::vector<float> read_all(const std::filesystem::path& path) {
  auto file = AudioFile::open(path.string());
  EXPECT_TRUE(file) << path;
  std::vector<float> samples;
  if (file) file->read(1 << 24, samples);
  return samples;
}

TEST(Resampler, RefusesRatesOutOfRangeAndNamesThem) {
  for (const auto& rates : {Rates{3999, 16000}, {384001, 16000}, {0, 16000}, {-8000, 16000}, {16000, 1}}) {
    const auto resampler = Resampler::create(rates.in, rates.out);
    ASSERT_FALSE(resampler) << rates.in << " " << rates.out;
    EXPECT_EQ(resampler.error().code, "bad_sample_rate");
    EXPECT_THAT(resampler.error().message, ::testing::HasSubstr("from 4000 to 384000"));
  }
}

TEST(Resampler, PassesEqualRatesThroughUnchanged) {
  std::mt19937 random(1);
  const auto in = noise(1000, random);
  auto resampler = Resampler::create(16000, 16000);
  ASSERT_TRUE(resampler);
  EXPECT_EQ(resample(*resampler, in), in);
}

TEST(Resampler, OutputCountIsTheInputCountAtTheNewRate) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (const auto& rates : {Rates{8000, 16000},
                            {4000, 16000},
                            {384000, 16000},
                            {44100, 16000},
                            {48000, 16000},
                            {11025, 16000},
                            {16001, 16000},
                            {16000, 8000},
                            {96000, 4000}}) {
    auto resampler = Resampler::create(rates.in, rates.out);
    ASSERT_TRUE(resampler);
    for (const int64_t count :
         {int64_t{0}, int64_t{1}, int64_t{7}, static_cast<int64_t>(random() % 100000)}) {
      const auto out = resample(*resampler, noise(static_cast<size_t>(count), random));
      const int64_t expected = (count * rates.out + rates.in - 1) / rates.in;
      EXPECT_EQ(static_cast<int64_t>(out.size()), expected)
          << count << " samples, " << rates.in << " to " << rates.out;
    }
  }
}

TEST(Resampler, GivesTheSameBitsHoweverTheInputIsCut) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (const auto& rates :
       {Rates{8000, 16000}, {44100, 16000}, {48000, 16000}, {384000, 16000}, {22050, 16000}}) {
    const auto in = noise(static_cast<size_t>(rates.in / 2), random);
    auto resampler = Resampler::create(rates.in, rates.out);
    ASSERT_TRUE(resampler);
    const auto whole = resample(*resampler, in);
    // The same object again: flush() has to forget the signal before.
    std::vector<float> pieces;
    for (std::span<const float> rest = in; !rest.empty();) {
      const size_t count = std::min<size_t>(random() % 3000, rest.size());
      resampler->process(rest.first(count), pieces);
      rest = rest.subspan(count);
    }
    resampler->flush(pieces);
    EXPECT_EQ(pieces, whole) << rates.in;
  }
}

TEST(Resampler, LeavesAToneWhereItWas) {
  for (const auto& rates : {Rates{8000, 16000}, {4000, 16000}, {44100, 16000}, {384000, 16000}}) {
    const auto tone = [](int rate, size_t i) {
      return static_cast<float>(0.5 *
                                std::sin(2 * std::numbers::pi * 1000.0 * static_cast<double>(i) / rate));
    };
    std::vector<float> in(static_cast<size_t>(rates.in));
    for (size_t i = 0; i < in.size(); ++i) in[i] = tone(rates.in, i);
    auto resampler = Resampler::create(rates.in, rates.out);
    ASSERT_TRUE(resampler);
    const auto out = resample(*resampler, in);
    float worst = 0;
    // The signal begins and ends abruptly; what the filter makes of the edges is left out.
    for (size_t i = 2000; i < out.size() - 2000; ++i) {
      worst = std::max(worst, std::abs(out[i] - tone(rates.out, i)));
    }
    EXPECT_LT(worst, 1e-3F) << rates.in;
  }
}

TEST(Resampler, TelephoneSpeechIsCloseToTheReferenceConversion) {
  const std::filesystem::path speech = std::filesystem::path(TUTTI_TEST_DATA) / "speech";
  int clips = 0;
  for (const auto& entry : std::filesystem::directory_iterator(speech / "16k")) {
    const auto reference = read_all(entry.path());
    auto resampler = Resampler::create(8000, 16000);
    ASSERT_TRUE(resampler);
    const auto ours = resample(*resampler, read_all(speech / entry.path().filename()));
    ASSERT_EQ(ours.size(), reference.size()) << entry.path();
    double signal = 0;
    double error = 0;
    for (size_t i = 0; i < ours.size(); ++i) {
      signal += reference[i] * reference[i];
      error += (ours[i] - reference[i]) * (ours[i] - reference[i]);
    }
    EXPECT_GT(10 * std::log10(signal / error), 45.0) << entry.path();
    ++clips;
  }
  EXPECT_EQ(clips, 16);
}

}  // namespace
}  // namespace tutti
