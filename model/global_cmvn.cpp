#include "model/global_cmvn.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "config/result.hpp"
#include "model/input_file.hpp"

namespace tutti {
namespace {

constexpr size_t max_cmvn_bytes = 1 << 20;
constexpr double variance_floor = 1e-20;

class CmvnReader {
 public:
  explicit CmvnReader(const std::filesystem::path& file) : origin_(file.string()) {
    const std::string text = read_input_file(file, max_cmvn_bytes);
    if (const auto error = parser_.parse(text).get(root_)) {
      refuse(fmt::format("is not a JSON object: {}", simdjson::error_message(error)));
    }
  }

  [[nodiscard]] double number(const char* key) const {
    double value = 0;
    if (root_[key].get(value)) refuse(fmt::format("'{}' is missing or not a number", key));
    return value;
  }

  [[nodiscard]] std::vector<double> numbers(const char* key, size_t count) const {
    simdjson::dom::array array;
    if (root_[key].get(array)) refuse(fmt::format("'{}' is missing or not an array", key));
    std::vector<double> values;
    for (const auto element : array) {
      double value = 0;
      if (element.get(value)) refuse(fmt::format("'{}' holds something that is not a number", key));
      values.push_back(value);
    }
    if (values.size() != count) {
      refuse(
          fmt::format("'{}' has {} numbers; one for each of {} bins is expected", key, values.size(), count));
    }
    return values;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw SetupError(fmt::format("{}: {}", origin_, why));
  }

 private:
  std::string origin_;
  simdjson::dom::parser parser_;
  simdjson::dom::object root_;
};

}  // namespace

GlobalCmvn load_global_cmvn(const std::filesystem::path& file, int bins) {
  const CmvnReader reader(file);
  const auto sums = reader.numbers("mean_stat", static_cast<size_t>(bins));
  const auto squares = reader.numbers("var_stat", static_cast<size_t>(bins));
  const double frames = reader.number("frame_num");
  if (!(frames > 0)) reader.refuse(fmt::format("'frame_num' is {}; a positive number is expected", frames));
  GlobalCmvn cmvn;
  for (size_t i = 0; i < sums.size(); ++i) {
    const double mean = sums[i] / frames;
    const double variance = std::max(squares[i] / frames - mean * mean, variance_floor);
    cmvn.mean.push_back(static_cast<float>(mean));
    cmvn.istd.push_back(static_cast<float>(1.0 / std::sqrt(variance)));
    if (!std::isfinite(cmvn.mean[i]) || !std::isfinite(cmvn.istd[i])) {
      reader.refuse(fmt::format("bin {} has no finite mean and deviation", i));
    }
  }
  return cmvn;
}

}  // namespace tutti
