#include "gpu/cuda/intrinsics.cuh"

namespace tutti::cuda {
namespace {

constexpr int block_threads = 128;
constexpr int kernel_side = 3;

// A block a row of output, a thread a channel: neighbours write neighbouring values and read the same window.
__global__ void convolve_rows(FirstConvolutionCall call) {
  const float* const features = call.features + static_cast<int64_t>(call.feature_row[blockIdx.x]) * call.mel;
  const int bins = (call.mel - 1) / 2;
  float* const out = call.out + static_cast<int64_t>(blockIdx.x) * bins * call.channels;
  for (int c = static_cast<int>(threadIdx.x); c < call.channels; c += block_threads) {
    for (int bin = 0; bin < bins; ++bin) {
      float sum = call.bias[c];
      for (int t = 0; t < kernel_side; ++t) {
        for (int f = 0; f < kernel_side; ++f) {
          const float weight = call.weight[c * kernel_side * kernel_side + t * kernel_side + f];
          sum = multiply_add(weight, features[t * call.mel + 2 * bin + f], sum);
        }
      }
      out[bin * call.channels + c] = sum < 0.0F ? 0.0F : sum;  // not fmaxf, which would lose a NaN
    }
  }
}

}  // namespace

int first_convolution(Queue* queue, const FirstConvolutionCall& call) {
  return launch(queue, convolve_rows, dim3(static_cast<unsigned>(call.rows)), dim3(block_threads), call);
}

}  // namespace tutti::cuda
