#pragma once

#include <string>

#include "config/result.hpp"
#include "gpu/cuda/plugin_api.hpp"

namespace tutti {

/// The CUDA backend, a shared library loaded at run time so that one binary starts on any machine.
class CudaPlugin {
 public:
  /// Loads the library at `path`, or, without one, libtutti_cuda.so from beside the executable, else from
  /// ../lib/tutti, else from the library path. It stays loaded. Each error is one sentence for the log:
  /// "cuda_plugin_missing"; "cuda_plugin_unusable" (it does not load, or is of another version of this
  /// program); "cuda_unavailable" (no driver, a driver too old, no GPU).
  [[nodiscard]] static Result<CudaPlugin> load(const std::string& path = {});

  /// `api` has `devices` GPUs.
  CudaPlugin(const cuda::PluginApi& api, int devices) : api_(&api), devices_(devices) {}

  [[nodiscard]] const cuda::PluginApi& api() const { return *api_; }
  /// GPUs, at least 1.
  [[nodiscard]] int devices() const { return devices_; }

 private:
  const cuda::PluginApi* api_;
  int devices_;
};

}  // namespace tutti
