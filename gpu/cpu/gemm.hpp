#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "gpu/cpu/aligned_buffer.hpp"
#include "gpu/ops.hpp"

namespace tutti::cpu {

/// The left operand of a product, read where it lies: row r starts at
///   base + (r / group_rows) * group_stride + (r % group_rows) * row_stride
/// and its K values are runs of `run_length` floats that start `run_stride` apart. A plain matrix is one
/// group of one run a row; a convolution over channels-last activations is the same without an im2col copy.
struct GemmInput {
  const float* base = nullptr;
  int64_t row_stride = 0;
  int64_t group_rows = std::numeric_limits<int64_t>::max();
  int64_t group_stride = 0;
  int run_length = 0;
  int64_t run_stride = 0;

  /// A row-major (rows, columns) matrix.
  [[nodiscard]] static GemmInput matrix(const float* data, int columns) {
    return {.base = data, .row_stride = columns, .run_length = columns};
  }
  [[nodiscard]] const float* row(int64_t r) const {
    return base + r / group_rows * group_stride + r % group_rows * row_stride;
  }
  /// True when rows of `columns` values follow each other without a gap.
  [[nodiscard]] bool is_matrix(int columns) const {
    return group_rows == std::numeric_limits<int64_t>::max() && run_length == columns &&
           row_stride == columns;
  }
  /// Copies values [begin, begin + count) of row r.
  void gather(int64_t r, int begin, int count, float* out) const;
};

/// What becomes of a finished row: y = residual + scale * activation(acc + bias).
struct GemmOutput {
  float* y = nullptr;               ///< row-major, the rows `out_features` apart
  const float* residual = nullptr;  ///< laid out like y, may be y itself; or none
  Activation activation = Activation::none;
  float scale = 1.0F;
};

/// A thread's connection to oneDNN.
struct OnednnStream;

/// Working memory of the products, one per thread. Its size does not depend on the number of rows: a product
/// takes its rows in blocks.
struct GemmScratch {
  GemmScratch();
  ~GemmScratch();
  static constexpr size_t floats = size_t{1} << 20;
  AlignedBuffer input{floats};
  AlignedBuffer accumulators{floats};
  std::unique_ptr<OnednnStream> onednn;
};

/// A weight matrix in a kernel's own layout, with its bias. Immutable: threads share it.
///
/// `run` computes each row with an order of operations that depends on nothing but K and N, so a row's bits
/// do not depend on how many rows there are or where it stands among them.
class PackedGemm {
 public:
  virtual ~PackedGemm() = default;
  PackedGemm(const PackedGemm&) = delete;
  PackedGemm& operator=(const PackedGemm&) = delete;

  [[nodiscard]] int in_features() const { return in_features_; }
  [[nodiscard]] int out_features() const { return out_features_; }
  virtual void run(const GemmInput& x, int64_t rows, const GemmOutput& out, GemmScratch& scratch) const = 0;

 protected:
  PackedGemm(int in_features, int out_features) : in_features_(in_features), out_features_(out_features) {}

 private:
  int in_features_;
  int out_features_;
};

/// A weight matrix as it comes: row-major (out_features, in_features), with a bias or none.
struct GemmWeights {
  const float* weight = nullptr;
  const float* bias = nullptr;
  int in_features = 0;
  int out_features = 0;
};

}  // namespace tutti::cpu
