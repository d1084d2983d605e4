#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/cpu/level.hpp"
#include "gpu/cuda/cuda_ops.hpp"
#include "gpu/cuda/staging.hpp"
#include "gpu/plugin.hpp"
#include "tests/config/patience.hpp"
#include "tests/gpu/conformance.hpp"
#ifdef TUTTI_CUDA_HOST
#include "tests/gpu/cuda_host/api.hpp"
#endif

namespace tutti {
namespace {

Backend cpu_backend(std::string name, cpu::GemmChoice choice) {
  return {.name = std::move(name), .make = [choice] { return make_cpu_ops(choice); }};
}

Backend cpu_backend(std::string name, WeightType weights, double tolerance) {
  return {.name = std::move(name),
          .make = [weights] { return make_cpu_ops(cpu::GemmChoice::automatic, weights); },
          .operations = "linear subsample",
          .tolerance = tolerance};
}

/// "CpuPanel" becomes CpuPanel_portable, CpuPanel_avx2, ...
void add_on_every_level(std::vector<Backend>& all, const Backend& backend) {
  for (const std::string_view level : cpu::levels()) {
    all.push_back(backend);
    all.back().name += fmt::format("_{}", level);
    all.back().level = level;
    all.back().slow |= level == "portable" && is_in_a_hurry();
  }
}

/// Types that a GPU multiplies on tensor cores, and what the subsampling may be off by in them.
struct TensorType {
  WeightType weights;
  cuda::MatrixType matrix;
  double tolerance;
};
constexpr std::array tensor_types{TensorType{WeightType::bf16, cuda::MatrixType::bf16, 0.004},
                                  TensorType{WeightType::fp16, cuda::MatrixType::f16, 0.0005},
                                  TensorType{WeightType::int8, cuda::MatrixType::int8, 0.02},
                                  TensorType{WeightType::fp8, cuda::MatrixType::f8e4m3, 0.06}};

/// "Cuda" becomes Cuda_bf16, Cuda_fp16, ... In the suites' other references no row is rounded.
[[maybe_unused]] Backend in_type(Backend backend, const TensorType& type) {
  backend.name += fmt::format("_{}", weight_type_name(type.weights));
  backend.operations = "subsample";
  backend.tolerance = type.tolerance;
  backend.weights = type.weights;
  return backend;
}

#ifdef TUTTI_CUDA_HOST
Backend cuda_on_host(cuda::MatrixType type = cuda::MatrixType::f32) {
  const cuda::PluginApi& api = cuda::host::api();
  return {.name = "CudaOnHost",
          .make = [&api, type] { return make_cuda_ops(api, 0, type); },
          .operations = api.operations,
          .slow = true};
}
#endif

#ifdef TUTTI_CUDA_PLUGIN
Backend cuda_on_gpu(cuda::MatrixType type = cuda::MatrixType::f32) {
  const Result<CudaPlugin> plugin = CudaPlugin::load();
  Backend backend{.name = "Cuda", .make = {}, .operations = cuda::operations};
  if (!plugin) {
    backend.absent = plugin.error().message;
    return backend;
  }
  const cuda::PluginApi& api = plugin->api();
  backend.make = [&api, type] { return make_cuda_ops(api, 0, type); };
  int can = 0;
  cuda::check(api, api.kernels.can_multiply(0, type, &can), "tell what it multiplies");
  if (can == 0) backend.absent = "the GPU does not multiply in this type";
  return backend;
}
#endif

bool computes(const Backend& backend, std::string_view operation) {
  const std::string padded = " " + std::string(backend.operations) + " ";
  return backend.operations.empty() || padded.find(" " + std::string(operation) + " ") != std::string::npos;
}

std::vector<Backend> that_compute(std::vector<Backend> all, Operations operations) {
  std::erase_if(all, [operations](const Backend& backend) {
    return !std::ranges::all_of(operations, [&](std::string_view name) { return computes(backend, name); });
  });
  return all;
}

std::vector<Backend> all_serving_backends() {
  std::vector<Backend> all{cpu_backend("Cpu", cpu::GemmChoice::automatic)};
  add_on_every_level(all, cpu_backend("CpuPanel", cpu::GemmChoice::panel));
  add_on_every_level(all, cpu_backend("CpuBf16", WeightType::bf16, 0.004));
  add_on_every_level(all, cpu_backend("CpuInt8", WeightType::int8, 0.02));
#ifdef TUTTI_CUDA_HOST
  all.push_back(cuda_on_host());
#endif
#ifdef TUTTI_CUDA_PLUGIN
  all.push_back(cuda_on_gpu());
#endif
  return all;
}

}  // namespace

std::vector<Backend> serving_backends(Operations operations) {
  return that_compute(all_serving_backends(), operations);
}

std::vector<Backend> tensor_core_backends() {
  std::vector<Backend> all;
  for ([[maybe_unused]] const TensorType& type : tensor_types) {
#ifdef TUTTI_CUDA_HOST
    all.push_back(in_type(cuda_on_host(type.matrix), type));
#endif
#ifdef TUTTI_CUDA_PLUGIN
    all.push_back(in_type(cuda_on_gpu(type.matrix), type));
#endif
  }
  return all;
}

std::vector<Backend> tensor_core_backends(WeightType weights) {
  std::vector<Backend> all = tensor_core_backends();
  std::erase_if(all, [weights](const Backend& backend) { return backend.weights != weights; });
  return all;
}

std::vector<Backend> backends(Operations operations) {
  std::vector<Backend> all = all_serving_backends();
  std::ranges::copy(tensor_core_backends(), std::back_inserter(all));
#ifdef TUTTI_ONEDNN
  all.push_back(cpu_backend("CpuOnednn", cpu::GemmChoice::onednn));
#endif
  return that_compute(std::move(all), operations);
}

}  // namespace tutti
