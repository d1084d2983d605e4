#include "gpu/cuda/plugin_api.hpp"

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstring>

#include "gpu/cuda/queue.hpp"

namespace tutti::cuda {

struct Graph {
  cudaGraphExec_t executable;
  uint64_t hash;
};

struct Event {
  cudaEvent_t event;
};

namespace {

/// The architecture of the oldest GPU that the kernels are built for.
constexpr int least_major = 8;

/// An error that work can go on after. The runtime would tell of it once more, after the next launch.
cudaError_t forgotten(cudaError_t error) {
  static_cast<void>(cudaGetLastError());
  return error;
}

void explain(cudaError_t error, char* reason, size_t size) {
  int driver = 0;
  int runtime = 0;
  if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess &&
      cudaRuntimeGetVersion(&runtime) == cudaSuccess) {
    if (driver == 0) {
      std::snprintf(reason, size, "no NVIDIA driver is installed (libcuda.so.1 was not found)");
    } else {
      std::snprintf(reason, size, "the NVIDIA driver supports CUDA %d.%d, and %d.%d is needed", driver / 1000,
                    driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    }
  } else if (error == cudaErrorNoDevice) {
    std::snprintf(reason, size, "the NVIDIA driver sees no GPU");
  } else {
    std::snprintf(reason, size, "the NVIDIA driver says: %s", cudaGetErrorString(error));
  }
}

int device_count(char* reason, size_t size) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    explain(error, reason, size);
    return 0;
  }
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    if (const cudaError_t failed = cudaGetDeviceProperties(&properties, device); failed != cudaSuccess) {
      explain(failed, reason, size);
      return 0;
    }
    if (properties.major < least_major) {
      std::snprintf(reason, size,
                    "GPU %d (%s) has compute capability %d.%d, and %d.0 is needed; CUDA_VISIBLE_DEVICES can "
                    "leave it out",
                    device, properties.name, properties.major, properties.minor, least_major);
      return 0;
    }
  }
  return count;
}

const char* error_text(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

int open_queue(int device, Queue** queue) {
  *queue = nullptr;
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return error;
  cudaStream_t stream = nullptr;
  if (const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      error != cudaSuccess) {
    return error;
  }
  *queue = new Queue{.device = device, .stream = stream};
  return cudaSuccess;
}

// Nobody is left to tell about a failure to release: what it was goes with the context.

void close_queue(Queue* queue) {
  static_cast<void>(cudaStreamSynchronize(queue->stream));
  static_cast<void>(cudaStreamDestroy(queue->stream));
  delete queue;
}

int allocate(int device, size_t bytes, std::byte** memory) {
  *memory = nullptr;
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return error;
  // Of no bytes cudaMalloc makes no pointer.
  const size_t taken = bytes == 0 ? 1 : bytes;
  if (const cudaError_t error = cudaMalloc(reinterpret_cast<void**>(memory), taken); error != cudaSuccess)
    return forgotten(error);
  if (const cudaError_t error = cudaMemset(*memory, 0, taken); error != cudaSuccess) return error;
  // Queues do not wait for the default stream, where the memory is cleared.
  return cudaStreamSynchronize(nullptr);
}

/// The last to hold it may be a thread that has never used the GPU, and would begin to use the first.
void release(std::byte* memory) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, memory) == cudaSuccess) {
    static_cast<void>(cudaSetDevice(attributes.device));
  }
  static_cast<void>(cudaFree(memory));
}

/// With unified addressing, which every GPU of these has under Linux, its address is the same for kernels.
int allocate_pinned(size_t bytes, int mapped, std::byte** memory) {
  const unsigned flags = cudaHostAllocPortable | (mapped != 0 ? cudaHostAllocMapped : 0U);
  const cudaError_t error = cudaHostAlloc(reinterpret_cast<void**>(memory), bytes, flags);
  if (error != cudaSuccess) return forgotten(error);
  std::memset(*memory, 0, bytes);
  return cudaSuccess;
}

void release_pinned(std::byte* memory) { static_cast<void>(cudaFreeHost(memory)); }

int copy(Queue* queue, void* to, const void* from, size_t bytes) {
  if (!queue->recording.takes(to, from, bytes)) return cudaSuccess;
  if (const cudaError_t error = cudaSetDevice(queue->device); error != cudaSuccess) return error;
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, queue->stream);
}

int open_event(int device, int timed, Event** event) {
  *event = nullptr;
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return error;
  cudaEvent_t made = nullptr;
  const unsigned flags = timed != 0 ? cudaEventDefault : cudaEventDisableTiming;
  if (const cudaError_t error = cudaEventCreateWithFlags(&made, flags); error != cudaSuccess) return error;
  *event = new Event{.event = made};
  return cudaSuccess;
}

void close_event(Event* event) {
  static_cast<void>(cudaEventDestroy(event->event));
  delete event;
}

int mark(Queue* queue, Event* event) {
  if (const cudaError_t error = cudaSetDevice(queue->device); error != cudaSuccess) return error;
  return cudaEventRecord(event->event, queue->stream);
}

int follow(Queue* queue, Event* event) {
  if (const cudaError_t error = cudaSetDevice(queue->device); error != cudaSuccess) return error;
  return cudaStreamWaitEvent(queue->stream, event->event, 0);
}

int reached(Event* event, int* yes) {
  const cudaError_t error = cudaEventQuery(event->event);
  *yes = error == cudaSuccess ? 1 : 0;
  if (error != cudaErrorNotReady) return error;
  static_cast<void>(forgotten(error));
  return cudaSuccess;
}

int elapsed(Event* from, Event* to, float* milliseconds) {
  return cudaEventElapsedTime(milliseconds, from->event, to->event);
}

int start_recording(Queue* queue, QueueMode mode) {
  queue->recording.start(mode);
  if (mode != QueueMode::record) return cudaSuccess;
  if (const cudaError_t error = cudaSetDevice(queue->device); error != cudaSuccess) return error;
  return cudaStreamBeginCapture(queue->stream, cudaStreamCaptureModeThreadLocal);
}

int finish_recording(Queue* queue, Graph** graph) {
  *graph = nullptr;
  const uint64_t hash = queue->recording.finish();
  cudaGraph_t captured = nullptr;
  if (const cudaError_t error = cudaStreamEndCapture(queue->stream, &captured); error != cudaSuccess)
    return forgotten(error);
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&executable, captured, 0);
  static_cast<void>(cudaGraphDestroy(captured));
  if (error != cudaSuccess) return forgotten(error);
  *graph = new Graph{.executable = executable, .hash = hash};
  return cudaSuccess;
}

int repeat(Queue* queue, Graph* graph, int* same) {
  *same = queue->recording.finish() == graph->hash ? 1 : 0;
  return *same != 0 ? cudaGraphLaunch(graph->executable, queue->stream) : cudaSuccess;
}

void release_graph(Graph* graph) {
  static_cast<void>(cudaGraphExecDestroy(graph->executable));
  delete graph;
}

void begin_range(const char* name) { static_cast<void>(nvtxRangePushA(name)); }
void end_range() { static_cast<void>(nvtxRangePop()); }

int memory(int device, size_t* free, size_t* total) {
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return error;
  return cudaMemGetInfo(free, total);
}

int describe(int device, GpuInfo* info) {
  *info = {};
  cudaDeviceProp properties{};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess)
    return error;
  std::snprintf(info->name, sizeof(info->name), "%s", properties.name);
  info->compute_major = properties.major;
  info->compute_minor = properties.minor;
  if (const cudaError_t error = cudaDriverGetVersion(&info->driver_version); error != cudaSuccess)
    return error;
  return cudaRuntimeGetVersion(&info->runtime_version);
}

int wait(Queue* queue) { return cudaStreamSynchronize(queue->stream); }

constexpr PluginApi api{.abi_version = plugin_abi_version,
                        .operations = operations,
                        .device_count = device_count,
                        .error_text = error_text,
                        .open_queue = open_queue,
                        .close_queue = close_queue,
                        .allocate = allocate,
                        .release = release,
                        .allocate_pinned = allocate_pinned,
                        .release_pinned = release_pinned,
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
}  // namespace tutti::cuda

extern "C" __attribute__((visibility("default"))) const tutti::cuda::PluginApi* tutti_cuda_plugin(
    int abi_version) {
  return abi_version == tutti::cuda::plugin_abi_version ? &tutti::cuda::api : nullptr;
}
