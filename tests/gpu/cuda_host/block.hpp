#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <source_location>
#include <span>
#include <vector>

#include "tests/gpu/cuda_host/kernel_fault.hpp"

/// CUDA's extents and indices.
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3() = default;
  explicit dim3(unsigned x_extent, unsigned y_extent = 1, unsigned z_extent = 1)
      : x(x_extent), y(y_extent), z(z_extent) {}
  [[nodiscard]] unsigned volume() const { return x * y * z; }
  /// The index of entry `i`, x fastest.
  [[nodiscard]] dim3 index(unsigned i) const { return dim3(i % x, i / x % y, i / x / y); }
};

// What CUDA C++ gives a running thread.
extern thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace tutti::cuda::host {

/// The threads of one block, each a fiber that runs until it waits for others. Which of those that can go on
/// is next is drawn by lot, so that nothing but a kernel's own synchronisation orders them.
class Block {
 public:
  explicit Block(dim3 size);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Runs the kernel as block `index`. Throws KernelFault, also where threads wait for what cannot come:
  /// a barrier that some do not reach, a warp operation whose mask names threads that are elsewhere.
  void run(dim3 index, const std::function<void()>& kernel, std::mt19937_64& random);

  // For the kernel's threads.

  /// The block that the calling fiber is of.
  [[nodiscard]] static Block& current();
  /// Waits at a barrier. Stricter than a GPU: it is the same for all threads, and none may have returned.
  void barrier(const std::source_location& where);
  /// Waits for the threads in `mask`, which all come to the same place, and returns `source`'s value.
  [[nodiscard]] uint64_t shuffle(unsigned mask, uint64_t value, unsigned source,
                                 const std::source_location& where);
  /// Waits for the whole warp, all of which comes to the same place with as many words, and returns what all
  /// have brought, lane by lane: until the warp's next exchange.
  [[nodiscard]] std::span<const uint32_t> exchange(std::span<const uint32_t> brought,
                                                   const std::source_location& where);
  [[nodiscard]] int thread() const { return static_cast<int>(running_); }
  /// Barriers passed: what lies in different phases is ordered between any threads.
  [[nodiscard]] int phase() const { return phase_; }
  /// The block's shared memory; the same T for all threads.
  template <class T>
  [[nodiscard]] T& shared() {
    static constexpr char type = 0;
    if (shared_ == nullptr) {
      shared_ = std::make_shared<T>();
      shared_type_ = &type;
    }
    if (shared_type_ != &type) throw KernelFault("a kernel asks for two types of shared memory");
    return *static_cast<T*>(shared_.get());
  }

 private:
  static constexpr unsigned warp = 32;
  enum class State { ready, at_barrier, in_warp, returned };
  struct Thread {
    boost::context::fiber fiber;
    State state = State::ready;
    std::source_location where;
    unsigned mask = 0, source = 0;
    uint64_t value = 0;                 ///< brought to a warp operation, and then its result
    std::span<const uint32_t> brought;  ///< empty but in an exchange
  };

  void resume(unsigned thread, const std::function<void()>& kernel);
  void start(Thread& thread, const std::function<void()>& kernel);
  /// Back to `run`, until the thread is ready again.
  void wait(State state, const std::source_location& where);
  void make_ready(unsigned thread);
  void pass_barrier();
  /// Completes the warp operation that `last` waits in, if all that it names wait there.
  void pass_warp(unsigned last);
  void pass_exchange(unsigned first);
  [[nodiscard]] std::string describe(unsigned thread) const;
  [[nodiscard]] std::string describe_stuck() const;

  dim3 size_;
  boost::context::pooled_fixedsize_stack stacks_;
  std::vector<Thread> threads_;
  std::vector<unsigned> ready_;
  std::vector<std::vector<uint32_t>> exchanged_;  ///< by warp
  boost::context::fiber scheduler_;
  unsigned running_ = 0;
  unsigned at_barrier_ = 0;
  int phase_ = 0;
  std::exception_ptr error_;
  std::shared_ptr<void> shared_;
  const void* shared_type_ = nullptr;
};

/// Runs a grid block by block, in any order.
void run_grid(dim3 grid, dim3 block, const std::function<void()>& kernel, std::mt19937_64& random);

}  // namespace tutti::cuda::host
