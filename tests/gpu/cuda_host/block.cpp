#include "tests/gpu/cuda_host/block.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace tutti::cuda::host {
namespace {

/// Room for a kernel's locals and for an exception on its way out.
constexpr size_t stack_bytes = 64 << 10;
constexpr unsigned most_threads = 1024;

thread_local Block* current_block = nullptr;

bool same_place(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() && std::string_view(a.file_name()) == b.file_name();
}

}  // namespace

Block::Block(dim3 size) : size_(size), stacks_(stack_bytes), exchanged_((size.volume() + warp - 1) / warp) {
  if (size.volume() == 0 || size.volume() > most_threads) {
    throw KernelFault("a block of " + std::to_string(size.volume()) + " threads");
  }
}

Block& Block::current() {
  if (current_block == nullptr) throw KernelFault("device code outside a kernel");
  return *current_block;
}

void Block::run(dim3 index, const std::function<void()>& kernel, std::mt19937_64& random) {
  blockIdx = index;
  blockDim = size_;
  threads_.clear();
  threads_.resize(size_.volume());
  ready_.resize(threads_.size());
  std::iota(ready_.begin(), ready_.end(), 0U);
  at_barrier_ = 0;
  phase_ = 0;
  error_ = nullptr;
  shared_ = nullptr;
  current_block = this;
  while (!ready_.empty() && error_ == nullptr) {
    std::swap(ready_[random() % ready_.size()], ready_.back());
    const unsigned next = ready_.back();
    ready_.pop_back();
    resume(next, kernel);
  }
  const bool stuck = error_ == nullptr && std::ranges::any_of(threads_, [](const Thread& t) {
                       return t.state != State::returned;
                     });
  const std::string reason = stuck ? describe_stuck() : "";
  threads_.clear();  // unwinds those that still wait
  current_block = nullptr;
  if (error_ != nullptr) std::rethrow_exception(error_);
  if (stuck) throw KernelFault(reason);
}

void Block::resume(unsigned thread, const std::function<void()>& kernel) {
  Thread& next = threads_[thread];
  running_ = thread;
  threadIdx = size_.index(thread);
  if (!next.fiber && next.state == State::ready) start(next, kernel);
  next.fiber = std::move(next.fiber).resume();
  if (error_ != nullptr) return;
  if (next.state == State::at_barrier && ++at_barrier_ == threads_.size()) pass_barrier();
  if (next.state == State::in_warp) pass_warp(thread);
}

void Block::start(Thread& thread, const std::function<void()>& kernel) {
  thread.fiber = boost::context::fiber(std::allocator_arg, stacks_,
                                       [this, &thread, &kernel](boost::context::fiber&& scheduler) {
                                         scheduler_ = std::move(scheduler);
                                         try {
                                           kernel();
                                         } catch (const boost::context::detail::forced_unwind&) {
                                           throw;
                                         } catch (...) {
                                           error_ = std::current_exception();
                                         }
                                         thread.state = State::returned;
                                         return std::move(scheduler_);
                                       });
}

void Block::wait(State state, const std::source_location& where) {
  Thread& self = threads_[running_];
  self.state = state;
  self.where = where;
  scheduler_ = std::move(scheduler_).resume();
}

void Block::make_ready(unsigned thread) {
  threads_[thread].state = State::ready;
  ready_.push_back(thread);
}

void Block::barrier(const std::source_location& where) {
  if (!SeededFaults::strikes(Site::Kind::barrier, where)) wait(State::at_barrier, where);
}

uint64_t Block::shuffle(unsigned mask, uint64_t value, unsigned source, const std::source_location& where) {
  Thread& self = threads_[running_];
  const unsigned lane = running_ % warp;
  if ((mask >> lane & 1) == 0 || (mask >> source % warp & 1) == 0) {
    throw KernelFault("a warp operation at " + to_string(where) + " of or from a thread outside its mask");
  }
  self.mask = mask;
  self.value = value;
  self.source = running_ - lane + source % warp;
  wait(State::in_warp, where);
  return threads_[running_].value;
}

std::span<const uint32_t> Block::exchange(std::span<const uint32_t> brought,
                                          const std::source_location& where) {
  Thread& self = threads_[running_];
  self.mask = 0xffffffffU;
  self.brought = brought;
  wait(State::in_warp, where);
  return exchanged_[running_ / warp];
}

void Block::pass_barrier() {
  for (const Thread& thread : threads_) {
    if (!same_place(thread.where, threads_.front().where)) {
      error_ = std::make_exception_ptr(
          KernelFault("threads wait at different barriers: " + to_string(threads_.front().where) + " and " +
                      to_string(thread.where)));
      return;
    }
  }
  at_barrier_ = 0;
  ++phase_;
  for (unsigned thread = 0; thread < threads_.size(); ++thread) make_ready(thread);
}

void Block::pass_warp(unsigned last) {
  const unsigned first = last / warp * warp;
  const unsigned mask = threads_[last].mask;
  uint64_t values[warp] = {};
  for (unsigned lane = 0; lane < warp; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    // A warp that the block does not fill has no such threads to wait for.
    if (first + lane >= threads_.size()) return;
    const Thread& thread = threads_[first + lane];
    if (thread.state != State::in_warp || thread.mask != mask ||
        !same_place(thread.where, threads_[last].where)) {
      return;
    }
    values[lane] = thread.value;
  }
  if (!threads_[last].brought.empty()) return pass_exchange(first);
  for (unsigned lane = 0; lane < warp; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    Thread& thread = threads_[first + lane];
    thread.value = values[thread.source % warp];
    make_ready(first + lane);
  }
}

void Block::pass_exchange(unsigned first) {
  std::vector<uint32_t>& all = exchanged_[first / warp];
  all.clear();
  for (unsigned lane = 0; lane < warp; ++lane) {
    Thread& thread = threads_[first + lane];
    all.insert(all.end(), thread.brought.begin(), thread.brought.end());
    thread.brought = {};
    make_ready(first + lane);
  }
}

std::string Block::describe(unsigned thread) const {
  const std::string name = "thread " + std::to_string(thread);
  const Thread& t = threads_[thread];
  if (t.state == State::returned) return name + " has returned";
  return name + (t.state == State::at_barrier ? " waits at the barrier at " : " waits for its warp at ") +
         to_string(t.where);
}

std::string Block::describe_stuck() const {
  std::string reason;
  for (unsigned thread = 0; thread < threads_.size(); ++thread) {
    // The first of each kind tells enough.
    const bool known = std::any_of(threads_.begin(), threads_.begin() + thread, [&](const Thread& t) {
      return t.state == threads_[thread].state && same_place(t.where, threads_[thread].where);
    });
    if (!known) reason += (reason.empty() ? "" : ", ") + describe(thread);
  }
  return "not all threads reached the same place: " + reason;
}

void run_grid(dim3 grid, dim3 block, const std::function<void()>& kernel, std::mt19937_64& random) {
  gridDim = grid;
  Block threads(block);
  std::vector<unsigned> order(grid.volume());
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), random);
  for (const unsigned i : order) threads.run(grid.index(i), kernel, random);
}

}  // namespace tutti::cuda::host
