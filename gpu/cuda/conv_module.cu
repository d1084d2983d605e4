#include "gpu/cuda/activation.cuh"
#include "gpu/cuda/reduce.cuh"

namespace tutti::cuda {
namespace {

constexpr int block_threads = 256;
constexpr int warps = block_threads / warp_threads;

// One block a lane, a thread a channel: it alone moves that channel's values, in order, so that the shift of
// the cache by fewer rows than it holds reads nothing that it has written.
__global__ void extend_lanes(const float* x, const int32_t* row_begin, const int32_t* slots, int context,
                             int64_t channels, float* cache, float* extended) {
  const int lane = static_cast<int>(blockIdx.x);
  const int64_t begin = row_begin[lane];
  const int64_t rows = row_begin[lane + 1] - begin;
  const int64_t channel = static_cast<int64_t>(blockIdx.y) * block_threads + threadIdx.x;
  if (channel >= channels) return;
  float* const left = cache + slots[lane] * context * channels + channel;
  float* const to = extended + (begin + static_cast<int64_t>(lane) * context) * channels + channel;
  for (int64_t r = 0; r < context; ++r) to[r * channels] = left[r * channels];
  for (int64_t r = 0; r < rows; ++r) to[(context + r) * channels] = x[(begin + r) * channels + channel];
  for (int64_t r = 0; r < context; ++r) left[r * channels] = to[(rows + r) * channels];
}

// GLU and depthwise convolution of one channel of a tile, into `out`. Each gated value is made once and given
// to all rows that it is a tap of; a row's taps come in order. Each tap is loaded once: a thread's lie side
// by side, so that a warp's are in as many cache lines as it has. As many as there are rows are held at a
// time.
__device__ void convolve(const ConvModuleCall& call, const ConvTile& tile, int64_t channel) {
  constexpr int rows = conv_tile_rows;
  float sums[rows];
  for (float& sum : sums) sum = call.bias[channel];
  float taps[rows] = {};
  const float* const weight = call.weight + channel * call.taps;
  const float* const x =
      call.extended + static_cast<int64_t>(tile.extended_row) * 2 * call.channels + channel;
  const int inputs = tile.rows + call.taps - 1;
  for (int begin = 0; begin < inputs; begin += rows) {
#pragma unroll
    for (int j = 0; j < rows; ++j) {
      const int r = begin + j;
      // Beyond the ends the last is loaded again, and used for nothing, so that all loads can go ahead.
      taps[j] = weight[r < call.taps ? r : call.taps - 1];
      const float* const input = x + (r < inputs ? r : inputs - 1) * 2 * call.channels;
      const float gated = input[0] * sigmoid(input[call.channels]);
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        if (r >= i && r - i < call.taps) sums[i] = multiply_add(taps[(j - i + rows) % rows], gated, sums[i]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < rows; ++i) {
    if (i < tile.rows) call.out[(tile.out_row + i) * call.channels + channel] = sums[i];
  }
}

struct Shared {
  SharedArray<float, warps> partial;
};

// A block makes a tile with all channels of it, which the norm is over. Between the two steps a thread reads
// only what it wrote.
__global__ void conv_tiles(ConvModuleCall call) {
  Shared& shared = shared_memory<Shared>();
  const ConvTile tile = call.tiles[blockIdx.x];
  const int64_t channels = call.channels;
  for (int64_t c = threadIdx.x; c < channels; c += block_threads) convolve(call, tile, c);
  for (int i = 0; i < tile.rows; ++i) {
    float* const y = call.out + (tile.out_row + i) * channels;
    float mean = 0.0F;
    float istd = 1.0F;
    if (call.folded == 0) {
      float sum = 0.0F;
      for (int64_t c = threadIdx.x; c < channels; c += block_threads) sum += y[c];
      mean = block_reduce(sum, shared.partial, Add()) / static_cast<float>(channels);
      float squares = 0.0F;
      for (int64_t c = threadIdx.x; c < channels; c += block_threads) {
        squares = multiply_add(y[c] - mean, y[c] - mean, squares);
      }
      istd = 1.0F /
             sqrtf(block_reduce(squares, shared.partial, Add()) / static_cast<float>(channels) + call.eps);
    }
    for (int64_t c = threadIdx.x; c < channels; c += block_threads) {
      y[c] = swish(multiply_add((y[c] - mean) * istd, call.norm_scale[c], call.norm_shift[c]));
    }
  }
}

}  // namespace

int extend_with_context(Queue* queue, const float* x, const int32_t* row_begin, const int32_t* slots,
                        int lanes, int context, int64_t channels, float* cache, float* extended) {
  return launch(queue, extend_lanes, dim3(static_cast<unsigned>(lanes), blocks_for(channels, block_threads)),
                dim3(block_threads), x, row_begin, slots, context, channels, cache, extended);
}

int conv_module(Queue* queue, const ConvModuleCall& call, int tiles) {
  return launch(queue, conv_tiles, dim3(static_cast<unsigned>(tiles)), dim3(block_threads), call);
}

}  // namespace tutti::cuda
