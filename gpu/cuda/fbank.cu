#include <cfloat>

#include "gpu/cuda/reduce.cuh"

namespace tutti::cuda {
namespace {

constexpr int block_threads = 64;
constexpr int warps = block_threads / warp_threads;

struct Complex {
  float re, im;
};
__device__ Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
__device__ Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
/// -i a
__device__ Complex turn(Complex a) { return {a.im, -a.re}; }
__device__ Complex operator*(Complex a, Complex b) {
  return {multiply_add(-a.im, b.im, a.re * b.re), multiply_add(a.im, b.re, a.re * b.im)};
}

struct Shared {
  SharedArray<float, max_fbank_points> re, im;
  SharedArray<float, max_fbank_points + 1> power;
  SharedArray<float, warps> partial;

  __device__ Complex load(int i) { return {re(i), im(i)}; }
  __device__ void store(int i, Complex z) {
    re(i) = z.re;
    im(i) = z.im;
  }
};

__device__ Complex root(const FbankPlanTables& tables, int k) {
  return {tables.roots[2 * k], tables.roots[2 * k + 1]};
}

/// The stream that `frame` belongs to. One without frames owns none.
__device__ FbankStream stream_of(const FbankStream* streams, int count, int frame) {
  int low = 0;
  int high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (streams[middle].first_frame <= frame ? low : high) = middle;
  }
  return streams[low];
}

// Sample n, scaled, without DC, pre-emphasised and windowed, is half of the complex number n / 2.
__device__ void load_frame(const FbankPlanTables& tables, const float* samples, Shared& shared) {
  constexpr float scale = 32768.0F;
  float sum = 0.0F;
  for (int n = static_cast<int>(threadIdx.x); n < tables.length; n += block_threads)
    sum += samples[n] * scale;
  const float mean = block_reduce_once(sum, shared.partial, Add()) / static_cast<float>(tables.length);
  for (int n = static_cast<int>(threadIdx.x); n < 2 * tables.points; n += block_threads) {
    float value = 0.0F;
    if (n < tables.length) {
      const float previous = samples[n == 0 ? 0 : n - 1] * scale - mean;
      value = (samples[n] * scale - mean - tables.preemphasis * previous) * tables.window[n];
    }
    if (n % 2 == 0) {
      shared.re(n / 2) = value;
    } else {
      shared.im(n / 2) = value;
    }
  }
  __syncthreads();
}

// In place, decimation in frequency: butterflies of four, then of two where the number of points is not a
// power of four. Frequency k ends at order[k].
__device__ void transform(const FbankPlanTables& tables, Shared& shared) {
  int length = tables.points;
  for (; length >= 4; length /= 4) {
    const int quarter = length / 4;
    for (int i = static_cast<int>(threadIdx.x); i < tables.points / 4; i += block_threads) {
      const int j = i % quarter;
      const int z = i / quarter * length + j;
      const int by = j * (2 * tables.points / length);  // the table holds the roots of order 2 * points
      const Complex a = shared.load(z);
      const Complex b = shared.load(z + quarter);
      const Complex c = shared.load(z + 2 * quarter);
      const Complex d = shared.load(z + 3 * quarter);
      const Complex turned = turn(b - d);
      shared.store(z, a + c + (b + d));
      shared.store(z + quarter, (a - c + turned) * root(tables, by));
      shared.store(z + 2 * quarter, (a + c - (b + d)) * root(tables, 2 * by));
      shared.store(z + 3 * quarter, (a - c - turned) * root(tables, 3 * by));
    }
    __syncthreads();
  }
  if (length == 1) return;
  for (int i = static_cast<int>(threadIdx.x); i < tables.points / 2; i += block_threads) {
    const Complex a = shared.load(2 * i);
    const Complex b = shared.load(2 * i + 1);
    shared.store(2 * i, a + b);
    shared.store(2 * i + 1, a - b);
  }
  __syncthreads();
}

// Of the real signal whose even and odd samples were the transform's real and imaginary parts:
// X[k] = (Z[k] + conj Z[n-k]) / 2 - i w^k (Z[k] - conj Z[n-k]) / 2.
__device__ void power_spectrum(const FbankPlanTables& tables, Shared& shared) {
  for (int k = static_cast<int>(threadIdx.x); k <= tables.points; k += block_threads) {
    const Complex a = shared.load(tables.order[k % tables.points]);
    const Complex b = shared.load(tables.order[(tables.points - k) % tables.points]);
    const Complex even{a.re + b.re, a.im - b.im};
    const Complex odd = turn({a.re - b.re, a.im + b.im});
    const Complex x = even + odd * root(tables, k);
    shared.power(k) = multiply_add(x.re * 0.5F, x.re * 0.5F, x.im * 0.5F * (x.im * 0.5F));
  }
  __syncthreads();
}

// One block a frame.
__global__ void fbank_frames(FbankPlanTables tables, const FbankStream* streams, int count, int shift) {
  Shared& shared = shared_memory<Shared>();
  const int frame = static_cast<int>(blockIdx.x);
  const FbankStream stream = stream_of(streams, count, frame);
  const int64_t at = frame - stream.first_frame;
  load_frame(tables, stream.samples + at * shift, shared);
  transform(tables, shared);
  power_spectrum(tables, shared);
  for (int m = static_cast<int>(threadIdx.x); m < tables.mel; m += block_threads) {
    const int begin = tables.weight_begin[m];
    const int bins = tables.weight_begin[m + 1] - begin;
    float energy = 0.0F;
    for (int i = 0; i < bins; ++i) {
      energy = multiply_add(tables.weights[begin + i], shared.power(tables.first_bin[m] + i), energy);
    }
    // Not fmaxf, which would lose a NaN.
    stream.out[at * tables.mel + m] = logf(energy < FLT_EPSILON ? FLT_EPSILON : energy);
  }
}

}  // namespace

int fbank(Queue* queue, const FbankPlanTables& tables, const FbankStream* streams, int count, int64_t frames,
          int shift) {
  return launch(queue, fbank_frames, dim3(static_cast<unsigned>(frames)), dim3(block_threads), tables,
                streams, count, shift);
}

}  // namespace tutti::cuda
