#pragma once

// The host form of gpu/cuda/intrinsics.cuh: the parts of CUDA C++ that the kernels use, executed by
// tests/gpu/cuda_host/block.hpp.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <span>
#include <utility>

#include "gpu/bfloat16.hpp"
#include "gpu/cuda/vector.hpp"
#include "gpu/float16.hpp"
#include "gpu/float8.hpp"
#include "tests/gpu/cuda_host/block.hpp"
#include "tests/gpu/cuda_host/queue.hpp"

#define __global__
#define __device__
#define __launch_bounds__(...)

inline void __syncthreads(std::source_location where = std::source_location::current()) {
  tutti::cuda::host::Block::current().barrier(where);
}

/// From a lane of the caller's warp.
template <class T>
T __shfl_sync(unsigned mask, T value, int lane,
              std::source_location where = std::source_location::current()) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = tutti::cuda::host::Block::current().shuffle(mask, bits, static_cast<unsigned>(lane), where);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance,
                  std::source_location where = std::source_location::current()) {
  return __shfl_sync(mask, value, tutti::cuda::host::Block::current().thread() ^ distance, where);
}

/// Of a whole warp.
inline int __any_sync(unsigned /*mask*/, int predicate,
                      std::source_location where = std::source_location::current()) {
  const std::array<uint32_t, 1> brought{predicate != 0 ? 1U : 0U};
  const auto all = tutti::cuda::host::Block::current().exchange(brought, where);
  return std::ranges::find(all, 1U) != all.end() ? 1 : 0;
}

inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }

namespace tutti::cuda {
namespace host {

/// One element of shared memory, and who touched it last. Two threads' accesses without a barrier between
/// them, one of them a write, are a fault whatever the order they came in, and so is reading what nobody has
/// written.
template <class T>
class SharedElement {
 public:
  SharedElement(const SharedElement&) = delete;
  SharedElement() = default;

  operator T() const {  // NOLINT(google-explicit-constructor): reads like the T it is on a GPU
    const Block& block = Block::current();
    if (written_ < 0) throw KernelFault("shared memory is read that no thread has written");
    if (written_ == block.phase() && writer_ != block.thread()) race("reads", "written", writer_);
    reader_ = read_ == block.phase() && reader_ != block.thread() ? several : block.thread();
    read_ = block.phase();
    return value_;
  }
  SharedElement& operator=(T value) {
    const Block& block = Block::current();
    if (written_ == block.phase() && writer_ != block.thread()) race("writes", "written", writer_);
    if (read_ == block.phase() && reader_ != block.thread()) race("writes", "read", reader_);
    writer_ = block.thread();
    written_ = block.phase();
    value_ = value;
    return *this;
  }
  SharedElement& operator=(const SharedElement& other) { return *this = static_cast<T>(other); }

 private:
  static constexpr int several = -2;

  [[noreturn]] static void race(const char* does, const char* done, int other) {
    throw KernelFault("thread " + std::to_string(Block::current().thread()) + " " + does +
                      " shared memory that " +
                      (other == several ? "other threads have" : "thread " + std::to_string(other) + " has") +
                      " " + done + " since the last barrier");
  }

  T value_{};
  int written_ = -1, writer_ = -1;
  mutable int read_ = -1, reader_ = -1;
};

inline int checked(int i, int count, const std::source_location& where) {
  if (SeededFaults::strikes(Site::Kind::shared_index, where)) ++i;
  if (i < 0 || i >= count) {
    throw KernelFault("index " + std::to_string(i) + " of " + std::to_string(count) +
                      " in shared memory at " + to_string(where));
  }
  return i;
}

}  // namespace host

template <class T, int count>
struct SharedArray {
  std::array<host::SharedElement<T>, static_cast<size_t>(count)> values;
  host::SharedElement<T>& operator()(int i, std::source_location where = std::source_location::current()) {
    return values[static_cast<size_t>(host::checked(i, count, where))];
  }
};

template <class T, int rows, int columns>
struct SharedMatrix {
  std::array<host::SharedElement<T>, static_cast<size_t>(rows) * static_cast<size_t>(columns)> values;
  host::SharedElement<T>& operator()(int row, int column,
                                     std::source_location where = std::source_location::current()) {
    if (row < 0 || row >= rows) static_cast<void>(host::checked(row, rows, where));
    const int at = row * columns + host::checked(column, columns, where);
    return values[static_cast<size_t>(at)];
  }
  template <int n>
  Vector<T, n> load(int row, int column, std::source_location where = std::source_location::current()) {
    const host::SharedElement<T>* const from = neighbours<n>(row, column, where);
    Vector<T, n> vector;
    for (int i = 0; i < n; ++i) vector.values[i] = from[i];
    return vector;
  }
  template <int n>
  void store(int row, int column, const Vector<T, n>& from,
             std::source_location where = std::source_location::current()) {
    host::SharedElement<T>* const to = neighbours<n>(row, column, where);
    for (int i = 0; i < n; ++i) to[i] = from.values[i];
  }

 private:
  template <int n>
  host::SharedElement<T>* neighbours(int row, int column, const std::source_location& where) {
    static_assert(columns % n == 0);
    host::SharedElement<T>* const first = &(*this)(row, column, where);
    if ((first - values.data()) % n != 0)
      throw host::KernelFault(std::to_string(n) + " neighbours that are not aligned at " +
                              host::to_string(where));
    return first;
  }
};

template <class T>
T& shared_memory() {
  return host::Block::current().shared<T>();
}

/// Rounds twice: the library's fmaf is several times slower, and no result is the same as a GPU's to the bit.
inline float multiply_add(float a, float b, float c) { return a * b + c; }

inline uint32_t pack_bf16(float low, float high) {
  return static_cast<uint32_t>(to_bfloat16(high)) << 16 | to_bfloat16(low);
}

inline uint32_t pack_f16(float low, float high) {
  return static_cast<uint32_t>(to_float16(high)) << 16 | to_float16(low);
}

inline int32_t nearest(float value) { return static_cast<int32_t>(std::nearbyint(value)); }

namespace host {

/// The fragments of mma.m16n8k16 and m16n8k32 as the PTX manual has them: the same in words of 32 bits.
/// `x_of` and `w_of` give value i of a word of theirs.
template <int values_per_word, class Sum, class XOf, class WOf>
void mma(Sum (&sums)[4], const uint32_t (&x)[4], const uint32_t (&w)[2], XOf x_of, WOf w_of,
         const std::source_location& where) {
  constexpr int lanes = 32, words = 6, depth = 8 * values_per_word;
  const std::array<uint32_t, words> brought{x[0], x[1], x[2], x[3], w[0], w[1]};
  auto& block = Block::current();
  const std::span<const uint32_t> all = block.exchange(brought, where);
  /// All k of the row or column that a group of lanes holds in a word and in another.
  const auto gather = [all](int group, int first_word, int second_word, auto value_of) {
    std::array<Sum, depth> values;
    for (int k = 0; k < depth; ++k) {
      const int at = k / values_per_word;
      const int word = at < 4 ? first_word : second_word;
      values[static_cast<size_t>(k)] =
          value_of(all[static_cast<size_t>((group * 4 + at % 4) * words + word)], k % values_per_word);
    }
    return values;
  };
  const int lane = block.thread() % lanes;
  for (int half = 0; half < 2; ++half) {
    const auto row = gather(lane / 4, half, half + 2, x_of);
    for (int side = 0; side < 2; ++side) {
      const auto column = gather(lane % 4 * 2 + side, 4, 5, w_of);
      Sum& sum = sums[half * 2 + side];
      for (size_t k = 0; k < depth; ++k) sum += row[k] * column[k];
    }
  }
}

inline uint16_t half_of(uint32_t word, int i) { return static_cast<uint16_t>(word >> (16 * i)); }
inline uint8_t byte_of(uint32_t word, int i) { return static_cast<uint8_t>(word >> (8 * i)); }

}  // namespace host

inline void mma_bf16(float (&sums)[4], const uint32_t (&x)[4], const uint32_t (&w)[2],
                     std::source_location where = std::source_location::current()) {
  const auto value = [](uint32_t word, int i) { return from_bfloat16(host::half_of(word, i)); };
  host::mma<2>(sums, x, w, value, value, where);
}

inline void mma_f16(float (&sums)[4], const uint32_t (&x)[4], const uint32_t (&w)[2],
                    std::source_location where = std::source_location::current()) {
  const auto value = [](uint32_t word, int i) { return from_float16(host::half_of(word, i)); };
  host::mma<2>(sums, x, w, value, value, where);
}

inline void mma_f8e4m3(float (&sums)[4], const uint32_t (&x)[4], const uint32_t (&w)[2],
                       std::source_location where = std::source_location::current()) {
  const auto value = [](uint32_t word, int i) { return from_float8_e4m3(host::byte_of(word, i)); };
  host::mma<4>(sums, x, w, value, value, where);
}

inline void mma_int8(int32_t (&sums)[4], const uint32_t (&x)[4], const uint32_t (&w)[2],
                     std::source_location where = std::source_location::current()) {
  const auto code = [](uint32_t word, int i) { return int32_t{host::byte_of(word, i)}; };
  const auto weight = [](uint32_t word, int i) {
    return int32_t{static_cast<int8_t>(host::byte_of(word, i))};
  };
  host::mma<4>(sums, x, w, code, weight, where);
}

template <class Kernel>
int has_f8(int /*device*/, Kernel /*kernel*/, int* has) {
  *has = 1;
  return 0;
}

template <class... Parameters, class... Arguments>
int launch(Queue* queue, void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments... arguments) {
  if (grid.volume() == 0) return 0;
  constexpr int lost = 1;
  if (host::is_lost(queue)) return lost;
  const auto require = [queue](const auto& argument) {
    host::require_own_memory(queue, &argument, sizeof(argument));
  };
  (require(static_cast<Parameters>(arguments)), ...);
  if (!host::recording(queue).takes(kernel, grid, block, static_cast<Parameters>(arguments)...)) return 0;
  host::enqueue(queue, [=](std::mt19937_64& random) {
    host::run_grid(
        grid, block, [=] { kernel(static_cast<Parameters>(arguments)...); }, random);
  });
  return 0;
}

}  // namespace tutti::cuda
