#include "tests/gpu/cuda_host/api.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/cuda_host/kernel_fault.hpp"
#include "tests/gpu/cuda_host/memory.hpp"
#include "tests/gpu/cuda_host/queue.hpp"

namespace tutti::cuda {

struct Queue {
  std::vector<std::function<void(std::mt19937_64&)>> work;
  std::mt19937_64 random;
};

namespace host {
namespace {

uint64_t seed() {
  static const uint64_t chosen = [] {
    const char* const given = std::getenv("TUTTI_CUDA_HOST_SEED");
    const uint64_t value = given == nullptr ? std::random_device()() : std::strtoull(given, nullptr, 10);
    std::cout << "order of the kernels' threads: TUTTI_CUDA_HOST_SEED=" << value << '\n';
    return value;
  }();
  return chosen;
}

/// Of this thread: releasing memory waits for them, as cudaFree does.
thread_local std::vector<Queue*> queues;

void drain(Queue* queue) {
  // Taken out first, so that a fault leaves nothing to be done again.
  const auto work = std::exchange(queue->work, {});
  for (const auto& step : work) step(queue->random);
}

int device_count(char* /*reason*/, size_t /*reason_size*/) { return 1; }

const char* error_text(int /*error*/) { return "the host form throws its errors"; }

int open_queue(int /*device*/, Queue** queue) {
  *queue = new Queue{{}, std::mt19937_64(seed())};
  queues.push_back(*queue);
  return 0;
}

void close_queue(Queue* queue) {
  std::erase(queues, queue);
  drain(queue);
  delete queue;
}

int allocate(int /*device*/, size_t bytes, std::byte** memory) {
  *memory = allocate_guarded(bytes);
  return 0;
}

void release(std::byte* memory) {
  for (Queue* const queue : queues) drain(queue);
  release_guarded(memory);
}

int allocate_pinned(size_t bytes, std::byte** memory) { return allocate(0, bytes, memory); }

int copy(Queue* queue, void* to, const void* from, size_t bytes) {
  enqueue(queue, [=](std::mt19937_64&) { std::memcpy(to, from, bytes); });
  return 0;
}

int memory(int /*device*/, size_t* free, size_t* total) {
  *free = *total = size_t{1} << 30;
  return 0;
}

int wait(Queue* queue) {
  drain(queue);
  return 0;
}

constexpr PluginApi table{.abi_version = plugin_abi_version,
                          .operations = operations,
                          .device_count = device_count,
                          .error_text = error_text,
                          .open_queue = open_queue,
                          .close_queue = close_queue,
                          .allocate = allocate,
                          .release = release,
                          .allocate_pinned = allocate_pinned,
                          .release_pinned = release,
                          .copy = copy,
                          .memory = memory,
                          .wait = wait,
                          .kernels = kernel_table};

}  // namespace

void enqueue(Queue* queue, std::function<void(std::mt19937_64&)> work) {
  queue->work.push_back([work = std::move(work)](std::mt19937_64& random) {
    work(random);
    check_guards();
  });
}

const PluginApi& api() { return table; }

}  // namespace host
}  // namespace tutti::cuda
