#include "model/position_table.hpp"

#include <algorithm>
#include <cmath>

#include "config/result.hpp"

namespace tutti {

namespace {

void fill_computed_rows(const TensorView& table, int64_t first_row) {
  const int64_t d = table.cols();
  for (int64_t i = 0; i < d; i += 2) {
    const auto exponent =
        static_cast<float>(i) * static_cast<float>(-(std::log(10000.0) / static_cast<double>(d)));
    const float frequency = std::exp(exponent);
    for (int64_t p = first_row; p < table.rows(); ++p) {
      const float angle = static_cast<float>(p) * frequency;
      float* row = table[p].f32();
      row[i] = std::sin(angle);
      if (i + 1 < d) row[i + 1] = std::cos(angle);
    }
  }
}

}  // namespace

Tensor make_position_table(WeightMap& weights, std::initializer_list<std::string> names, int rows, int d) {
  Tensor table = host_tensor(DType::f32, {rows, d});
  int64_t stored_rows = 0;
  const auto* const name =
      std::ranges::find_if(names, [&](const std::string& n) { return weights.contains(n); });
  if (name != names.end()) {
    const TensorView stored = weights.take(*name);
    if (stored.shape.rank() != 3 || stored.shape[0] != 1 || stored.shape[2] != d) {
      throw SetupError(weights.origin() + ": " + *name + " has shape " + to_string(stored.shape) +
                       ", expected 1xPx" + std::to_string(d));
    }
    stored_rows = std::min<int64_t>(stored.shape[1], rows);
    std::copy_n(stored.f32(), stored_rows * d, table.view().f32());
  }
  fill_computed_rows(table, stored_rows);
  return table;
}

}  // namespace tutti
