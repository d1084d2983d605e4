#pragma once

#include <cstddef>

#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/recording.hpp"

namespace tutti::cuda {

/// Raised with every change of PluginApi.
inline constexpr int plugin_abi_version = 7;

/// A point in the order of a queue, reached when all that was queued there before is done.
struct Event;

/// A GPU, in words and numbers.
struct GpuInfo {
  char name[256];
  int compute_major, compute_minor;
  int driver_version, runtime_version;  ///< of CUDA: 1000 * major + 10 * minor
};

/// What libtutti_cuda.so offers the server. Only C types cross this boundary, since the two may have been
/// built by different compilers. Functions that return an int return 0 or an error for `error_text`.
struct PluginApi {
  int abi_version;
  /// cuda::operations of the plugin.
  const char* operations;
  /// Usable GPUs. When there are none, `reason` receives one sentence that says why.
  int (*device_count)(char* reason, size_t reason_size);
  const char* (*error_text)(int error);

  int (*open_queue)(int device, Queue** queue);
  /// Waits for what is queued.
  void (*close_queue)(Queue* queue);
  int (*allocate)(int device, size_t bytes, std::byte** memory);  ///< zeroed
  void (*release)(std::byte* memory);
  /// Host memory that copies read and write while the host goes on; kernels as well, if it is `mapped`.
  /// Zeroed.
  int (*allocate_pinned)(size_t bytes, int mapped, std::byte** memory);
  void (*release_pinned)(std::byte* memory);
  /// Queues a copy between any two of device, pinned and, with a wait for it, other host memory. The host
  /// may touch neither end before it has waited.
  int (*copy)(Queue* queue, void* to, const void* from, size_t bytes);
  /// Of the GPU's memory, what is free and what there is. Any thread.
  int (*memory)(int device, size_t* free, size_t* total);
  int (*describe)(int device, GpuInfo* info);
  /// A timed one is for `elapsed`.
  int (*open_event)(int device, int timed, Event** event);
  void (*close_event)(Event* event);
  /// Puts the event behind what is queued.
  int (*mark)(Queue* queue, Event* event);
  /// What is queued from now on is not begun before the event is reached, wherever it was put last.
  int (*follow)(Queue* queue, Event* event);
  /// Whether the event is reached. Does not wait.
  int (*reached)(Event* event, int* yes);
  /// Between two timed events that are reached.
  int (*elapsed)(Event* from, Event* to, float* milliseconds);
  /// From now on work is not run but recorded, or, with QueueMode::compare, compared with what was recorded.
  /// Of memory that is not pinned nothing may be copied, and nobody may wait.
  int (*start_recording)(Queue* queue, QueueMode mode);
  int (*finish_recording)(Queue* queue, Graph** graph);
  /// Ends a comparison. Queues the graph if what it would do is what was to be done, and says so.
  int (*repeat)(Queue* queue, Graph* graph, int* same);
  void (*release_graph)(Graph* graph);
  /// Names what is queued until the next end_range for profilers.
  void (*begin_range)(const char* name);
  void (*end_range)();
  /// Returns when all that was queued is done.
  int (*wait)(Queue* queue);

  KernelTable kernels;
};

/// The one exported symbol: null when the plugin does not speak `abi_version`.
using PluginEntry = const PluginApi* (*)(int abi_version);
inline constexpr const char* plugin_entry_name = "tutti_cuda_plugin";

}  // namespace tutti::cuda
