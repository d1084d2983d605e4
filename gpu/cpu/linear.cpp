#include "gpu/cpu/linear.hpp"

#include <cassert>

namespace tutti::cpu {
namespace {

class CpuLinear final : public PackedLinear {
 public:
  explicit CpuLinear(std::unique_ptr<const PackedGemm> gemm) : gemm_(std::move(gemm)) {}
  [[nodiscard]] int in_features() const override { return gemm_->in_features(); }
  [[nodiscard]] int out_features() const override { return gemm_->out_features(); }
  [[nodiscard]] const PackedGemm& gemm() const { return *gemm_; }

 private:
  std::unique_ptr<const PackedGemm> gemm_;
};

}  // namespace

std::shared_ptr<const PackedLinear> pack_linear(GemmPacker& packer, const TensorView& weight,
                                                const TensorView& bias) {
  assert(bias.data == nullptr || bias.shape.elements() == weight.rows());
  return std::make_shared<CpuLinear>(packer.pack({.weight = weight.f32(),
                                                  .bias = bias.data == nullptr ? nullptr : bias.f32(),
                                                  .in_features = static_cast<int>(weight.cols()),
                                                  .out_features = static_cast<int>(weight.rows())}));
}

void linear(const PackedLinear& weights, const TensorView& x, const Epilogue& epilogue, const TensorView& y,
            GemmScratch& scratch) {
  assert(x.cols() == weights.in_features() && y.cols() == weights.out_features() && x.rows() == y.rows());
  const float* residual = epilogue.residual.data == nullptr ? nullptr : epilogue.residual.f32();
  static_cast<const CpuLinear&>(weights).gemm().run(
      GemmInput::matrix(x.f32(), weights.in_features()), x.rows(),
      {.y = y.f32(), .residual = residual, .activation = epilogue.activation, .scale = epilogue.scale},
      scratch);
}

}  // namespace tutti::cpu
