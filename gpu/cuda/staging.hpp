#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <tuple>

#include "gpu/cuda/plugin_api.hpp"

namespace tutti::cuda {

/// A GPU has failed: nothing that is on it can be relied on, and its owner has to end.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws DeviceError, with `what` was tried, unless `error` is 0.
void check(const PluginApi& api, int error, const char* what);

/// One owner's Queue, and the small arrays that go over with its kernels (which rows, which entries) without
/// the host waiting: they are placed one behind another in pinned memory that mirrors device memory. A wait
/// frees all places. When they run out before one, `stage` waits; what does not fit at all makes it larger.
class Staging {
 public:
  Staging(const PluginApi& api, int device, size_t bytes);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  [[nodiscard]] Queue* queue() const { return queue_; }

  /// The same place on both sides, valid until the next wait or call of `place` or `stage`.
  struct Place {
    std::byte* host;
    std::byte* device;
  };
  [[nodiscard]] Place place(size_t bytes);

  /// Queues copies of the arrays, all the arrays of one kernel, and returns where they will be.
  template <class... T>
  [[nodiscard]] std::tuple<const T*...> stage(std::span<const T>... arrays) {
    const size_t bytes = (padded(arrays.size_bytes()) + ...);
    const Place at = place(bytes);
    size_t offset = 0;
    const auto append = [&]<class U>(std::span<const U> array) {
      if (!array.empty()) std::memcpy(at.host + offset, array.data(), array.size_bytes());
      const auto* there = reinterpret_cast<const U*>(at.device + offset);
      offset += padded(array.size_bytes());
      return there;
    };
    std::tuple<const T*...> there{append(arrays)...};  // braces: in this order
    copy(at.device, at.host, bytes);
    return there;
  }

  /// Queues a copy; see PluginApi::copy.
  void copy(void* to, const void* from, size_t bytes);
  void wait();

 private:
  /// For any type, and for whole cache lines.
  static constexpr size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }
  void allocate(size_t bytes);
  void release();

  const PluginApi& api_;
  int device_;
  Queue* queue_ = nullptr;
  Place memory_{};
  size_t size_ = 0;
  size_t used_ = 0;
};

}  // namespace tutti::cuda
