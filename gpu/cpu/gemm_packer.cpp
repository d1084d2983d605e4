#include "gpu/cpu/gemm_packer.hpp"

#include <vector>

#include "gpu/cpu/int8_gemm.hpp"
#include "gpu/cpu/level.hpp"
#include "gpu/cpu/onednn_gemm.hpp"
#include "gpu/cpu/panel_gemm.hpp"
#include "gpu/cpu/row_test.hpp"
#include "gpu/cpu/single_threaded.hpp"

namespace tutti::cpu {

GemmPacker::GemmPacker(GemmChoice choice, WeightType type)
    : choice_(choice),
      type_(type),
      // One usual shape speaks for the CPU: where it fails, no other is tried.
      use_onednn_(choice == GemmChoice::onednn ||
                  (choice == GemmChoice::automatic && type == WeightType::fp32 && !level_is_lowered() &&
                   onednn_passes(256, 256))) {}

std::string GemmPacker::description() const {
  if (type_ == WeightType::int8) return "int8 kernel";
  if (type_ == WeightType::bf16) return "panel kernel of bf16";
  return use_onednn_ ? onednn_version() + " + panel kernel" : "panel kernel";
}

std::unique_ptr<const PackedGemm> GemmPacker::pack(const GemmWeights& weights) {
  if (type_ == WeightType::int8) {
    if (auto packed = pack_int8_gemm(weights)) return packed;
  }
  if (type_ == WeightType::bf16) return pack_bf16_panel_gemm(weights);
  const bool onednn = use_onednn_ && (choice_ == GemmChoice::onednn ||
                                      onednn_passes(weights.in_features, weights.out_features));
  std::unique_ptr<const PackedGemm> packed = onednn ? pack_onednn_gemm(weights) : nullptr;
  return packed ? std::move(packed) : pack_panel_gemm(weights);
}

bool GemmPacker::onednn_passes(int in_features, int out_features) {
  const auto [verdict, is_new] = verdicts_.try_emplace({in_features, out_features}, false);
  if (is_new) {
    const SingleThreaded scope;
    // Arbitrary weights, because a checkpoint's own may be too regular to show a difference.
    const std::vector<float> weight =
        arbitrary_values(static_cast<size_t>(in_features) * static_cast<size_t>(out_features));
    const auto gemm = pack_onednn_gemm({weight.data(), nullptr, in_features, out_features});
    GemmScratch scratch;
    verdict->second = gemm != nullptr && rows_are_independent(*gemm, scratch);
  }
  return verdict->second;
}

}  // namespace tutti::cpu
