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

using Work = std::vector<std::function<void(std::mt19937_64&)>>;

struct Queue {
  Work work;
  std::mt19937_64 random;
  Recording recording{};
  Work recorded{};
};

struct Graph {
  Work work;
  uint64_t hash;
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
  *queue = new Queue{.work = {}, .random = std::mt19937_64(seed())};
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
  if (!queue->recording.takes(to, from, bytes)) return 0;
  enqueue(queue, [=](std::mt19937_64&) { std::memcpy(to, from, bytes); });
  return 0;
}

int memory(int /*device*/, size_t* free, size_t* total) {
  *free = *total = size_t{1} << 30;
  return 0;
}

int start_recording(Queue* queue, QueueMode mode) {
  queue->recording.start(mode);
  queue->recorded.clear();
  return 0;
}

int finish_recording(Queue* queue, Graph** graph) {
  *graph = new Graph{.work = std::exchange(queue->recorded, {}), .hash = queue->recording.finish()};
  return 0;
}

int repeat(Queue* queue, Graph* graph, int* same) {
  *same = queue->recording.finish() == graph->hash ? 1 : 0;
  if (*same != 0) queue->work.insert(queue->work.end(), graph->work.begin(), graph->work.end());
  return 0;
}

void release_graph(Graph* graph) { delete graph; }
void begin_range(const char* /*name*/) {}
void end_range() {}

int wait(Queue* queue) {
  if (queue->recording.mode() != QueueMode::run) throw KernelFault("a wait for what is only recorded");
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
                          .start_recording = start_recording,
                          .finish_recording = finish_recording,
                          .repeat = repeat,
                          .release_graph = release_graph,
                          .begin_range = begin_range,
                          .end_range = end_range,
                          .wait = wait,
                          .kernels = kernel_table};

}  // namespace

void enqueue(Queue* queue, std::function<void(std::mt19937_64&)> work) {
  Work& to = queue->recording.mode() == QueueMode::record ? queue->recorded : queue->work;
  to.push_back([work = std::move(work)](std::mt19937_64& random) {
    work(random);
    check_guards();
  });
}

Recording& recording(Queue* queue) { return queue->recording; }

const PluginApi& api() { return table; }

}  // namespace host
}  // namespace tutti::cuda
