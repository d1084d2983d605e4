#pragma once

#include <cstddef>
#include <vector>

#include "gpu/cuda/staging.hpp"
#include "gpu/stopwatch.hpp"

namespace tutti::cuda {

/// Marks are timed events. A GPU that does a small operation sooner than the host asks for the next one would
/// stand idle, and its events would tell how long the host takes; so it is first given copies within its
/// memory to be busy with, as many as it takes for the host to stay ahead.
class CudaStopwatch final : public Stopwatch {
 public:
  /// `owner` outlives it.
  CudaStopwatch(const PluginApi& api, int device, Staging& owner);
  ~CudaStopwatch() override;
  CudaStopwatch(const CudaStopwatch&) = delete;
  CudaStopwatch& operator=(const CudaStopwatch&) = delete;

  void start() override;
  void mark() override;
  [[nodiscard]] std::span<const double> marks() override;

 private:
  const PluginApi& api_;
  int device_;
  Staging& owner_;
  std::byte* copied_ = nullptr;
  int copies_ = 1;
  bool caught_up_ = false;
  std::vector<Event*> events_;
  size_t count_ = 0;
  std::vector<double> seconds_;
};

}  // namespace tutti::cuda
