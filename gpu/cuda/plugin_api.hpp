#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::cuda {

/// Raised with every change of PluginApi.
inline constexpr int plugin_abi_version = 1;

/// What libtutti_cuda.so offers the server. Only C types cross this boundary, since the two may have been
/// built by different compilers. Functions that return an int return 0 or an error for `error_text`. Device
/// memory is used in the order of the calls; `download` waits for what it copies.
struct PluginApi {
  int abi_version;
  /// The operations of Ops that it computes, separated by spaces.
  const char* operations;
  /// Usable GPUs. When there are none, `reason` receives one sentence that says why.
  int (*device_count)(char* reason, size_t reason_size);
  const char* (*error_text)(int error);

  int (*allocate)(int device, size_t bytes, void** memory);  ///< zeroed
  void (*release)(int device, void* memory);
  int (*upload)(int device, const void* host, size_t bytes, void* memory);
  int (*download)(int device, const void* memory, size_t bytes, void* host);

  /// y = gamma * (x - mean) / sqrt(var + eps) + beta over each row of x (rows, cols), device memory.
  int (*layer_norm)(int device, const float* x, int64_t rows, int64_t cols, const float* gamma,
                    const float* beta, float eps, float* y);
};

/// The one exported symbol: null when the plugin does not speak `abi_version`.
using PluginEntry = const PluginApi* (*)(int abi_version);
inline constexpr const char* plugin_entry_name = "tutti_cuda_plugin";

}  // namespace tutti::cuda
