// In place of onednn_gemm.cpp in a build without oneDNN (TUTTI_ONEDNN=OFF): no weights are packed for it.

#include "gpu/cpu/onednn_gemm.hpp"

namespace tutti::cpu {

struct OnednnStream {};

GemmScratch::GemmScratch() = default;
GemmScratch::~GemmScratch() = default;

std::unique_ptr<const PackedGemm> pack_onednn_gemm(const GemmWeights& /*weights*/) { return nullptr; }

std::string onednn_version() { return "without oneDNN"; }

}  // namespace tutti::cpu
