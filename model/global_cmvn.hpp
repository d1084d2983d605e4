#pragma once

#include <filesystem>
#include <vector>

namespace tutti {

/// Per-bin statistics of the features: x is normalised to (x - mean) * istd.
struct GlobalCmvn {
  std::vector<float> mean;
  std::vector<float> istd;
};

/// Reads WeNet's JSON sums {"mean_stat": [...], "var_stat": [...], "frame_num": n}:
/// mean = mean_stat/n, istd = 1/sqrt(max(var_stat/n - mean^2, 1e-20)), in double (wenet/utils/cmvn.py).
/// Throws SetupError naming the key when one is missing or does not have `bins` numbers.
[[nodiscard]] GlobalCmvn load_global_cmvn(const std::filesystem::path& file, int bins);

}  // namespace tutti
