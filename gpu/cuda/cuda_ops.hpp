#pragma once

#include <memory>

#include "gpu/cuda/packed.hpp"
#include "gpu/cuda/plugin_api.hpp"
#include "gpu/ops.hpp"

namespace tutti {

/// The operations of `api` on one of its GPUs. Each is queued and returns at once; `read` and `pick` wait for
/// what was queued before. Matrices are multiplied in `type`, which the GPU can; all else is fp32. All throw
/// cuda::DeviceError when the GPU fails. `api` outlives every tensor.
[[nodiscard]] std::unique_ptr<Ops> make_cuda_ops(const cuda::PluginApi& api, int device,
                                                 cuda::MatrixType type = cuda::MatrixType::f32);

}  // namespace tutti
