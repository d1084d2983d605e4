#include "tests/gpu/cuda_host/api.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/cuda_host/kernel_fault.hpp"
#include "tests/gpu/cuda_host/memory.hpp"
#include "tests/gpu/cuda_host/queue.hpp"

namespace tutti::cuda {

namespace {

/// Where an event was put last, how often it was put anywhere, and which of these times came true last. Lasts
/// as long as queued work that has to do with it.
struct Moment {
  Queue* queue = nullptr;
  uint64_t put = 0;
  uint64_t reached = 0;
  uint64_t time = 0;  // of the queue, when it was reached
};

struct Step {
  std::function<void(std::mt19937_64&)> run;  // of a kernel, a copy, or an event that is reached
  bool is_kernel = false;
  std::shared_ptr<const Moment> awaited{};  // this one only waits, for so many times
  uint64_t times = 0;
};

}  // namespace

struct Event {
  bool timed;
  std::shared_ptr<Moment> moment = std::make_shared<Moment>();
};

struct Queue {
  int device;
  std::mt19937_64 random;
  std::deque<Step> work{};
  Recording recording{};
  std::vector<Step> recorded{};
  uint64_t time = 0;  // steps done
};

struct Graph {
  std::vector<Step> work;
  uint64_t hash;
};

namespace host {
namespace {

constexpr int lost = 1;
std::array<std::atomic<bool>, devices> lost_devices{};

bool is_lost_device(int device) { return lost_devices[static_cast<size_t>(device)]; }

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

bool is_reached(const Step& step) { return step.awaited == nullptr || step.awaited->reached >= step.times; }

/// Does what the queue has to do next. What that waits for in another queue is done before.
void advance(Queue* queue) {
  // Taken out first, so that a fault leaves nothing to be done again.
  const Step step = std::move(queue->work.front());
  queue->work.pop_front();
  while (!is_reached(step)) advance(step.awaited->queue);
  if (step.run) step.run(queue->random);
  ++queue->time;
}

void drain(Queue* queue) {
  if (is_lost(queue)) queue->work.clear();
  while (!queue->work.empty()) advance(queue);
}

/// As far as nothing has to be waited for.
void advance_copies(Queue* queue) {
  if (std::ranges::any_of(queue->work, &Step::is_kernel)) return;
  while (!queue->work.empty() && is_reached(queue->work.front())) advance(queue);
}

bool by_lot(Queue* queue) { return queue->random() % 2 == 0; }

void require_running(const Queue* queue, const char* what) {
  if (queue->recording.mode() != QueueMode::run)
    throw KernelFault(std::string(what) + " while work is only recorded");
}

/// What a GPU refuses any thread that records.
void require_running(const char* what) {
  for (const Queue* const queue : queues) require_running(queue, what);
}

int device_count(char* /*reason*/, size_t /*reason_size*/) { return devices; }

const char* error_text(int error) {
  return error == lost ? "it fell off the bus" : "the host form throws its errors";
}

int open_queue(int device, Queue** queue) {
  *queue = nullptr;
  if (is_lost_device(device)) return lost;
  *queue = new Queue{.device = device, .random = std::mt19937_64(seed())};
  queues.push_back(*queue);
  return 0;
}

void close_queue(Queue* queue) {
  drain(queue);
  std::erase(queues, queue);
  delete queue;
}

int allocate(int device, size_t bytes, std::byte** memory) {
  *memory = nullptr;
  if (is_lost_device(device)) return lost;
  require_running("memory is allocated");
  *memory = allocate_guarded(device, bytes);
  return 0;
}

void release(std::byte* memory) {
  for (Queue* const queue : queues) drain(queue);
  release_guarded(memory);
}

int allocate_pinned(size_t bytes, int mapped, std::byte** memory) {
  require_running("memory is pinned");
  *memory = allocate_guarded(mapped != 0 ? every_device : no_device, bytes);
  return 0;
}

void add(Queue* queue, Step step) {
  if (queue->recording.mode() == QueueMode::record) {
    queue->recorded.push_back(std::move(step));
  } else {
    queue->work.push_back(std::move(step));
  }
}

int copy(Queue* queue, void* to, const void* from, size_t bytes) {
  if (is_lost(queue)) return lost;
  for (const void* const end : {static_cast<const void*>(to), from}) {
    const std::optional<int> device = device_of(end);
    if (!device) require_running(queue, "memory that is not pinned is copied");
    if (device.value_or(no_device) >= 0 && *device != queue->device)
      throw KernelFault("a copy to or from another GPU's memory");
  }
  if (!queue->recording.takes(to, from, bytes)) return 0;
  add(queue, {.run = [=](std::mt19937_64&) { std::memcpy(to, from, bytes); }});
  return 0;
}

int memory(int device, size_t* free, size_t* total) {
  if (is_lost_device(device)) return lost;
  *total = size_t{1} << 30;
  *free = *total - allocated(device);
  return 0;
}

int describe(int device, GpuInfo* info) {
  if (is_lost_device(device)) return lost;
  *info = {
      .name = {}, .compute_major = 9, .compute_minor = 0, .driver_version = 13000, .runtime_version = 13000};
  std::snprintf(info->name, sizeof(info->name), "host form %d", device);
  return 0;
}

int open_event(int device, int timed, Event** event) {
  *event = nullptr;
  if (is_lost_device(device)) return lost;
  *event = new Event{.timed = timed != 0};
  return 0;
}

void close_event(Event* event) { delete event; }

int mark(Queue* queue, Event* event) {
  if (is_lost(queue)) return lost;
  require_running(queue, "an event is put");
  event->moment->queue = queue;
  const uint64_t times = ++event->moment->put;
  add(queue, {.run = [queue, times, moment = event->moment](std::mt19937_64&) {
        moment->reached = times;
        moment->time = queue->time;
      }});
  if (by_lot(queue)) advance_copies(queue);
  return 0;
}

int follow(Queue* queue, Event* event) {
  if (is_lost(queue)) return lost;
  require_running(queue, "an event is awaited");
  add(queue, {.run = {}, .awaited = event->moment, .times = event->moment->put});
  return 0;
}

int reached(Event* event, int* yes) {
  *yes = 1;
  const Moment& moment = *event->moment;
  if (moment.queue != nullptr) require_running(moment.queue, "an event is asked for");
  if (moment.reached == moment.put) return 0;
  if (is_lost(moment.queue)) return lost;
  if (by_lot(moment.queue)) {
    *yes = 0;
    return 0;
  }
  while (moment.reached != moment.put) advance(moment.queue);
  return 0;
}

int elapsed(Event* from, Event* to, float* milliseconds) {
  for (const Event* const event : {from, to}) {
    if (!event->timed || event->moment->reached != event->moment->put)
      throw KernelFault("the time of an event that is not reached");
  }
  *milliseconds = static_cast<float>(to->moment->time - from->moment->time);
  return 0;
}

int start_recording(Queue* queue, QueueMode mode) {
  if (is_lost(queue)) return lost;
  queue->recording.start(mode);
  queue->recorded.clear();
  return 0;
}

int finish_recording(Queue* queue, Graph** graph) {
  *graph = new Graph{.work = std::exchange(queue->recorded, {}), .hash = queue->recording.finish()};
  return 0;
}

int repeat(Queue* queue, Graph* graph, int* same) {
  if (is_lost(queue)) return lost;
  *same = queue->recording.finish() == graph->hash ? 1 : 0;
  if (*same != 0) queue->work.insert(queue->work.end(), graph->work.begin(), graph->work.end());
  return 0;
}

void release_graph(Graph* graph) { delete graph; }
void begin_range(const char* /*name*/) {}
void end_range() {}

int wait(Queue* queue) {
  require_running(queue, "a wait");
  if (is_lost(queue)) return lost;
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
                          .describe = describe,
                          .open_event = open_event,
                          .close_event = close_event,
                          .mark = mark,
                          .follow = follow,
                          .reached = reached,
                          .elapsed = elapsed,
                          .start_recording = start_recording,
                          .finish_recording = finish_recording,
                          .repeat = repeat,
                          .release_graph = release_graph,
                          .begin_range = begin_range,
                          .end_range = end_range,
                          .wait = wait,
                          .kernels = kernel_table};

}  // namespace

void enqueue(Queue* queue, std::function<void(std::mt19937_64&)> kernel) {
  add(queue, {.run =
                  [kernel = std::move(kernel)](std::mt19937_64& random) {
                    kernel(random);
                    check_guards();
                  },
              .is_kernel = true});
}

Recording& recording(Queue* queue) { return queue->recording; }

bool is_lost(const Queue* queue) { return is_lost_device(queue->device); }

void require_own_memory(const Queue* queue, const void* argument, size_t size) {
  for (size_t at = 0; at + sizeof(void*) <= size; at += alignof(void*)) {
    const void* word = nullptr;
    std::memcpy(&word, static_cast<const std::byte*>(argument) + at, sizeof(word));
    const int device = device_of(word).value_or(queue->device);
    if (device == queue->device || device == every_device) continue;
    throw KernelFault("a kernel on GPU " + std::to_string(queue->device) + " is given " +
                      (device == no_device ? "pinned memory" : "memory of GPU " + std::to_string(device)));
  }
}

void lose_device(int device) { lost_devices[static_cast<size_t>(device)] = true; }
void find_devices() {
  for (std::atomic<bool>& device : lost_devices) device = false;
}

const PluginApi& api() { return table; }

}  // namespace host
}  // namespace tutti::cuda
