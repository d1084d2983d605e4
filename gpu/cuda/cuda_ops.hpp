#pragma once

#include <memory>

#include "gpu/cuda/plugin_api.hpp"
#include "gpu/ops.hpp"

namespace tutti {

/// The operations of `api` on one of its GPUs, fp32. Each is queued and returns at once; `download` and
/// `pick` wait for what was queued before. Operations that are not among api.operations throw
/// std::logic_error; all throw cuda::DeviceError when the GPU fails. `api` outlives every tensor.
[[nodiscard]] std::unique_ptr<Ops> make_cuda_ops(const cuda::PluginApi& api, int device);

}  // namespace tutti
