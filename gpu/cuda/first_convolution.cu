#include "gpu/cuda/intrinsics.cuh"

namespace tutti::cuda {
namespace {

constexpr int block_threads = 128;
constexpr int kernel_side = 3;

// Channel c of a row of output, whose weights stay in registers, and of each window's three columns the last,
// which is the next one's first.
__device__ void convolve(const FirstConvolutionCall& call, const float* features, float* out, int c) {
  float weights[kernel_side][kernel_side];
  float window[kernel_side][kernel_side];
#pragma unroll
  for (int t = 0; t < kernel_side; ++t) {
#pragma unroll
    for (int f = 0; f < kernel_side; ++f)
      weights[t][f] = call.weight[(c * kernel_side + t) * kernel_side + f];
    window[t][kernel_side - 1] = features[t * call.mel];
  }
  const float bias = call.bias[c];
  const int bins = (call.mel - 1) / 2;
  for (int bin = 0; bin < bins; ++bin) {
    float sum = bias;
#pragma unroll
    for (int t = 0; t < kernel_side; ++t) {
      window[t][0] = window[t][kernel_side - 1];
#pragma unroll
      for (int f = 1; f < kernel_side; ++f) window[t][f] = features[t * call.mel + 2 * bin + f];
#pragma unroll
      for (int f = 0; f < kernel_side; ++f) sum = multiply_add(weights[t][f], window[t][f], sum);
    }
    out[bin * call.channels + c] = sum < 0.0F ? 0.0F : sum;  // not fmaxf, which would lose a NaN
  }
}

// A block a row of output, a thread a channel: neighbours write neighbouring values and read the same window.
__global__ void convolve_rows(FirstConvolutionCall call) {
  const float* const features = call.features + static_cast<int64_t>(call.feature_row[blockIdx.x]) * call.mel;
  const int64_t row_values = static_cast<int64_t>((call.mel - 1) / 2) * call.channels;
  for (int c = static_cast<int>(threadIdx.x); c < call.channels; c += block_threads) {
    convolve(call, features, call.out + blockIdx.x * row_values, c);
  }
}

}  // namespace

int first_convolution(Queue* queue, const FirstConvolutionCall& call) {
  return launch(queue, convolve_rows, dim3(static_cast<unsigned>(call.rows)), dim3(block_threads), call);
}

}  // namespace tutti::cuda
