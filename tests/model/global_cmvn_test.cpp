#include "model/global_cmvn.hpp"

#include <gmock/gmock.h>

#include "config/result.hpp"
#include "model/torch_checkpoint.hpp"
#include "tests/config/temp_directory.hpp"

namespace tutti {
namespace {

using test::TempDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class GlobalCmvnFile : public ::testing::Test {
 protected:
  [[nodiscard]] GlobalCmvn load(std::string_view text, int bins = 2) const {
    return load_global_cmvn(directory_.write("global_cmvn", text), bins);
  }
  void expect_refused(std::string_view text, const std::string& part) const {
    EXPECT_THAT([&] { (void)load(text); }, ThrowsMessage<SetupError>(HasSubstr("global_cmvn: " + part)));
  }

  TempDirectory directory_;
};

TEST_F(GlobalCmvnFile, TurnsSumsIntoMeanAndInverseDeviation) {
  const GlobalCmvn cmvn = load(R"({"mean_stat": [8, -4], "var_stat": [32, 68], "frame_num": 4})");
  EXPECT_THAT(cmvn.mean, ElementsAre(2, -1));
  EXPECT_THAT(cmvn.istd, ElementsAre(0.5F, 0.25F));
}

TEST_F(GlobalCmvnFile, FloorsTheVariance) {
  const GlobalCmvn cmvn = load(R"({"mean_stat": [8, 8], "var_stat": [16, 15], "frame_num": 4})");
  EXPECT_THAT(cmvn.istd, ElementsAre(1e10F, 1e10F));
}

TEST_F(GlobalCmvnFile, AgreesWithTheStatisticsInsideTheCheckpoint) {
  const auto directory = std::filesystem::path(TUTTI_TEST_DATA) / "conformer-bn-tiny";
  const GlobalCmvn cmvn = load_global_cmvn(directory / "global_cmvn", 80);
  WeightMap weights = load_torch_checkpoint(directory / "final.pt");
  const float* mean = weights.take("encoder.global_cmvn.mean", {80}).f32();
  const float* istd = weights.take("encoder.global_cmvn.istd", {80}).f32();
  for (size_t bin = 0; bin < 80; ++bin) {
    EXPECT_NEAR(cmvn.mean[bin], mean[bin], 1e-6) << bin;
    EXPECT_NEAR(cmvn.istd[bin], istd[bin], 1e-7) << bin;
  }
}

TEST_F(GlobalCmvnFile, RefusesOtherFiles) {
  expect_refused("<Nnet>", "is not a JSON object");
  expect_refused("[1]", "is not a JSON object");
  expect_refused("", "is not a JSON object");
  expect_refused(R"({"var_stat": [1, 1], "frame_num": 4})", "'mean_stat' is missing or not an array");
  expect_refused(R"({"mean_stat": [1, 1], "var_stat": 3, "frame_num": 4})",
                 "'var_stat' is missing or not an array");
  expect_refused(R"({"mean_stat": [1, "x"], "var_stat": [1, 1], "frame_num": 4})",
                 "'mean_stat' holds something that is not a number");
  expect_refused(R"({"mean_stat": [1, 1], "var_stat": [1, 1]})", "'frame_num' is missing or not a number");
  expect_refused(R"({"mean_stat": [1], "var_stat": [1, 1], "frame_num": 4})",
                 "'mean_stat' has 1 numbers; one for each of 2 bins is expected");
}

TEST_F(GlobalCmvnFile, RefusesStatisticsThatAreNotFinite) {
  expect_refused(R"({"mean_stat": [1, 1], "var_stat": [1, 1], "frame_num": 0})",
                 "'frame_num' is 0; a positive number is expected");
  expect_refused(R"({"mean_stat": [1, 1e300], "var_stat": [1, 1], "frame_num": 1})",
                 "bin 1 has no finite mean and deviation");
}

}  // namespace
}  // namespace tutti
