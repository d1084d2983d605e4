#include <gmock/gmock.h>

#include <algorithm>
#include <iostream>
#include <numeric>
#include <sstream>

#include "gpu/cpu/cpu_ops.hpp"
#include "model/bundle.hpp"
#include "model/model_loader.hpp"
#include "tests/config/patience.hpp"
#include "tests/config/temp_directory.hpp"
#include "tests/engine/engine_fixture.hpp"

namespace tutti {
namespace {

using test::TempDirectory;

const std::filesystem::path test_data = TUTTI_TEST_DATA;

std::unique_ptr<Engine> engine_of(const std::filesystem::path& directory) {
  EngineConfig config;
  config.decoder = "greedy";
  auto ops = make_cpu_ops();
  const auto model =
      std::make_shared<const ConformerCtc>(load_model(directory), *ops, required_positions(config));
  return std::make_unique<Engine>(model, std::move(ops), config);
}

class BundleParity : public ::testing::TestWithParam<std::string> {};

TEST_P(BundleParity, Float32BundlesSayToTheBitWhatTheirSourceSays) {
  const TempDirectory directory;
  const auto source = test_data / GetParam();
  const auto bundle = directory.path() / "bundle";
  (void)save_bundle(bundle, load_model(source), WeightType::fp32);
  const auto from_source = engine_of(source);
  const auto from_bundle = engine_of(bundle);
  for (const char* name : {"libri-02.flac", "ocean-28.flac"}) {
    const std::vector<float> samples = clip(name);
    const Said said = recognize_alone(*from_source, samples);
    ASSERT_FALSE(said.finals().empty());
    EXPECT_EQ(recognize_alone(*from_bundle, samples), said) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(, BundleParity,
                         ::testing::Values("conformer-bn-tiny", "conformer-u2pp-tiny", "tutti-en-mini"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::erase(name, '-');
                           return name;
                         });

std::vector<std::string> words_of(const Said& said) {
  std::vector<std::string> words;
  for (const std::string& text : said.final_texts()) {
    std::istringstream in(text);
    for (std::string word; in >> word;) words.push_back(word);
  }
  return words;
}

/// Insertions, deletions and substitutions from one to the other.
size_t word_edits(const std::vector<std::string>& from, const std::vector<std::string>& to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t substituted = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> clips_at_16_khz() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test_data / "speech")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("libri-") || name.starts_with("ocean-")) names.push_back(name);
  }
  for (const auto& entry : std::filesystem::directory_iterator(test_data / "speech/16k")) {
    names.push_back("16k/" + entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

TEST(Bfloat16Bundle, SaysAtLeast99OfAHundredWordsAsFloat32Does) {
  if (is_in_a_hurry()) GTEST_SKIP() << "needs hundreds of words, which take minutes under AddressSanitizer";
  const auto exact = engine_of(test_data / "tutti-en-mini");
  const auto rounded = engine_of(std::filesystem::path(TUTTI_MODELS) / "tutti-en-mini");
  size_t words = 0;
  size_t edits = 0;
  for (const std::string& name : clips_at_16_khz()) {
    const std::vector<float> samples = clip(name);
    const auto expected = words_of(recognize_alone(*exact, samples));
    words += expected.size();
    edits += word_edits(expected, words_of(recognize_alone(*rounded, samples)));
  }
  std::cout << edits << " of " << words << " words differ\n";
  EXPECT_GT(words, 500U);
  EXPECT_LE(edits * 100, words);
}

}  // namespace
}  // namespace tutti
