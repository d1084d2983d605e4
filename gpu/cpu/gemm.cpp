#include "gpu/cpu/gemm.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::cpu {

void GemmInput::gather(int64_t r, int begin, int count, float* out) const {
  const float* start = row(r);
  for (int k = begin; k < begin + count;) {
    const int offset = k % run_length;
    const int n = std::min(run_length - offset, begin + count - k);
    std::memcpy(out, start + k / run_length * run_stride + offset, static_cast<size_t>(n) * sizeof(float));
    out += n;
    k += n;
  }
}

}  // namespace tutti::cpu
