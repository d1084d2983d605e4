#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gpu/cuda/cuda_ops.hpp"
#include "model/model_loader.hpp"
#include "tests/engine/engine_fixture.hpp"
#include "tests/gpu/cuda_host/api.hpp"

// Engines over the CUDA backend, whose kernels are executed on the host: slow, so that clips are short and
// models small.

namespace tutti {

[[nodiscard]] inline std::unique_ptr<Ops> gpu_ops(int gpu) { return make_cuda_ops(cuda::host::api(), gpu); }

/// A model of tests/data, packed by `ops`.
[[nodiscard]] inline std::shared_ptr<const ConformerCtc> load(const std::string& directory, Ops& ops,
                                                              const EngineConfig& config,
                                                              const std::string& identity = {}) {
  return std::make_shared<const ConformerCtc>(load_model(std::filesystem::path(TUTTI_TEST_DATA) / directory),
                                              ops, required_positions(config),
                                              required_hypothesis_tokens(config), identity);
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
