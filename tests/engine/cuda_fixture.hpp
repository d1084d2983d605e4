#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "gpu/cuda/cuda_ops.hpp"
#include "gpu/plugin.hpp"
#include "model/model_loader.hpp"
#include "tests/engine/engine_fixture.hpp"
#include "tests/gpu/cuda_host/api.hpp"

// Engines over the CUDA backend, whose kernels are executed on the host where there is no GPU: slow, so that
// clips are short and models small.

namespace tutti {

/// GPUs of one kind that engines are tested on.
struct Gpus {
  std::string name;
  const cuda::PluginApi* api = nullptr;
  int count = 0;
  std::string absent{};  ///< why there are none on this machine, else empty
};

inline std::ostream& operator<<(std::ostream& out, const Gpus& gpus) { return out << gpus.name; }

/// Those that the host form pretends to have.
[[nodiscard]] inline Gpus gpus_on_host() { return {"CudaOnHost", &cuda::host::api(), cuda::host::devices}; }

/// Those, and the machine's.
[[nodiscard]] inline std::vector<Gpus> all_gpus() {
  std::vector<Gpus> all{gpus_on_host()};
#ifdef TUTTI_CUDA_PLUGIN
  const Result<CudaPlugin> plugin = CudaPlugin::load();
  all.push_back(plugin ? Gpus{"Cuda", &plugin->api(), plugin->devices()}
                       : Gpus{"Cuda", nullptr, 0, plugin.error().message});
#endif
  return all;
}

[[nodiscard]] inline std::unique_ptr<Ops> gpu_ops(int gpu) { return make_cuda_ops(cuda::host::api(), gpu); }

/// A model of tests/data, packed by `ops`.
[[nodiscard]] inline std::shared_ptr<const ConformerCtc> load(const std::string& directory, Ops& ops,
                                                              const EngineConfig& config,
                                                              const std::string& identity = {}) {
  return std::make_shared<const ConformerCtc>(load_model(test_data() / directory), ops,
                                              required_positions(config), required_hypothesis_tokens(config),
                                              identity);
}

/// A few chunks of speech.
[[nodiscard]] inline std::vector<float> speech(size_t begin, size_t count) {
  const std::vector<float> whole = clip("libri-02.flac");
  return {whole.begin() + static_cast<std::ptrdiff_t>(begin),
          whole.begin() + static_cast<std::ptrdiff_t>(begin + count)};
}

/// Chunks and histories that a second of speech fills and passes.
[[nodiscard]] inline EngineConfig short_chunks(const std::string& decoder) {
  EngineConfig config;
  config.decoder = decoder;
  config.chunk_size = 4;
  config.num_left_chunks = 2;
  config.max_streams = 3;
  config.max_batch_size = 3;
  config.max_tick_ms = 10000;  // so that a slow machine's ticks are as wide as a fast one's
  config.max_position_frames = 60;
  config.max_rescored_frames = 64;
  return config;
}

}  // namespace tutti
