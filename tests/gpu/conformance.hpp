#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/ops.hpp"
#include "gpu/weight_type.hpp"
#include "tests/gpu/every_target.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace tutti {

/// An implementation of Ops that the suite is run against.
struct Backend {
  std::string name;
  std::function<std::unique_ptr<Ops>()> make;
  /// Those it computes, separated by spaces; all of Ops where empty.
  std::string_view operations{};
  /// What a product may be off by, relative to the sum of its terms' magnitudes.
  double tolerance = 1e-6;
  bool slow = false;                ///< without vectors, or thread by thread: is given smaller sizes
  std::string_view level = "auto";  ///< that CPU kernels are held to
  std::string absent{};             ///< why it cannot run on this machine, else empty
  WeightType weights = WeightType::fp32;
};

inline std::ostream& operator<<(std::ostream& out, const Backend& backend) { return out << backend.name; }

/// Operations of Ops by name: those that a suite calls.
using Operations = std::initializer_list<std::string_view>;

/// The backends that compute all of `operations`.
[[nodiscard]] std::vector<Backend> backends(Operations operations);
/// Those of them that may serve, and so must keep rows independent of each other; but for
/// tensor_core_backends, which have suites of their own.
[[nodiscard]] std::vector<Backend> serving_backends(Operations operations);
/// Those that multiply matrices on tensor cores, in each type or in one.
[[nodiscard]] std::vector<Backend> tensor_core_backends();
[[nodiscard]] std::vector<Backend> tensor_core_backends(WeightType weights);

[[nodiscard]] inline std::string backend_name(const testing::TestParamInfo<Backend>& info) {
  return info.param.name;
}

/// Tests written once against Ops. Tensors are made on the host; `device` and `host` cross over.
class OpsConformance : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (!GetParam().absent.empty()) GTEST_SKIP() << GetParam().absent;
    held_.emplace(GetParam().level);
    ops_ = GetParam().make();
  }
  [[nodiscard]] Ops& ops() { return *ops_; }
  [[nodiscard]] Tensor device(const TensorView& host_values) { return ops_->upload(host_values); }
  [[nodiscard]] std::vector<float> host(const TensorView& device_values) {
    std::vector<float> values(static_cast<size_t>(device_values.shape.elements()));
    ops_->download(device_values, values);
    return values;
  }

 private:
  std::optional<HeldLevel> held_;
  std::unique_ptr<Ops> ops_;
};

// Batches of up to 16 lanes of 16 rows, for tests that take each number of rows from one to all of them.
constexpr int most_lanes = 16;
constexpr int most_lane_rows = 16;
constexpr int most_rows = most_lanes * most_lane_rows;

/// Lanes with `rows` rows in all: full ones, and the rest in the last.
[[nodiscard]] inline std::vector<int> full_lanes(int rows) {
  std::vector<int> lanes(static_cast<size_t>(rows / most_lane_rows), most_lane_rows);
  if (rows % most_lane_rows != 0) lanes.push_back(rows % most_lane_rows);
  return lanes;
}

/// `count` values of a row from a flat host copy.
[[nodiscard]] inline std::span<const float> row_of(const std::vector<float>& values, int64_t row,
                                                   int64_t width) {
  return std::span(values).subspan(static_cast<size_t>(row * width), static_cast<size_t>(width));
}

}  // namespace tutti
