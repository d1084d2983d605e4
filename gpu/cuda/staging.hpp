#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <tuple>

#include "gpu/cuda/plugin_api.hpp"
#include "gpu/ops.hpp"

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
/// Layers need the same arrays again and again: those that were staged lately, since the last wait, are not
/// staged twice.
class Staging {
 public:
  Staging(const PluginApi& api, int device, size_t bytes);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  [[nodiscard]] Queue* queue() const { return queue_; }

  /// Where the next array may begin: for any type, and for whole cache lines.
  static constexpr size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

  /// The same place on both sides, valid until the next wait or call of `place` or `stage`.
  struct Place {
    std::byte* host;
    std::byte* device;
  };
  [[nodiscard]] Place place(size_t bytes);
  /// Whether there is a place without a wait.
  [[nodiscard]] bool fits(size_t bytes) const { return current_->used + bytes <= current_->size; }
  /// Makes places for so many bytes, if there are not.
  void reserve(size_t bytes) { reserve(places_, bytes); }
  void reserve_recorded(size_t bytes) { reserve(recorded_, bytes); }

  /// Queues copies of the arrays, all the arrays of one kernel, and returns where they will be.
  template <class... T>
  [[nodiscard]] std::tuple<const T*...> stage(std::span<const T>... arrays) {
    const size_t bytes = (padded(arrays.size_bytes()) + ...);
    const Place at = place(bytes);
    size_t offset = 0;
    const auto append = [&]<class U>(std::span<const U> array) {
      if (!array.empty()) std::memcpy(at.host + offset, array.data(), array.size_bytes());
      // What lies between the arrays is compared with them.
      std::memset(at.host + offset + array.size_bytes(), 0, padded(array.size_bytes()) - array.size_bytes());
      offset += padded(array.size_bytes());
    };
    (append(arrays), ...);
    std::byte* device = staged(at, bytes);
    return std::tuple<const T*...>{next<T>(device, arrays.size_bytes())...};
  }

  /// From now on places are of a memory of their own, the same for the same sequence of requests: what
  /// recorded work reads. False, and nothing changed, unless there was a wait since it was last used.
  [[nodiscard]] bool begin_recorded();
  void end_recorded();

  /// Queues a copy of `from`, which is read at once, as far as there are places for it; else waits.
  void write(void* to, const std::byte* from, size_t bytes);
  /// Queues a copy; see PluginApi::copy.
  void copy(void* to, const void* from, size_t bytes);
  void wait();

  [[nodiscard]] const DeviceUse& use() const { return use_; }
  void count_allocation() { ++use_.allocations; }
  void count_repeat() { ++use_.repeats; }
  void count_eager() { ++use_.eager; }

  /// The time from here, unless it runs, to the next wait that `end_timing` precedes is the device's.
  void begin_timing();
  void end_timing();

 private:
  /// The same memory on both sides, and what has been staged there since the last wait, the newest
  /// overwriting the oldest.
  struct Region {
    Place memory{};
    size_t size = 0;
    size_t used = 0;
    struct Staged {
      size_t begin, bytes;
    };
    static constexpr size_t remembered = 16;
    std::array<Staged, remembered> lately{};
    size_t staged = 0;
  };
  void reserve(Region& region, size_t bytes);
  void allocate(Region& region, size_t bytes);
  void release(Region& region);
  void close();
  /// Queues the copy of the place that was given out last, or gives it back when the same lies elsewhere;
  /// returns where it will be.
  std::byte* staged(const Place& at, size_t bytes);
  /// The array at `device`, which moves behind it.
  template <class T>
  static const T* next(std::byte*& device, size_t bytes) {
    const auto* const array = reinterpret_cast<const T*>(device);
    device += padded(bytes);
    return array;
  }

  const PluginApi& api_;
  int device_;
  Queue* queue_ = nullptr;
  Region places_;
  Region recorded_;
  Region* current_ = &places_;
  enum class Timing { none, begun, ended } timing_ = Timing::none;
  Event* timed_from_ = nullptr;
  Event* timed_to_ = nullptr;
  DeviceUse use_;
};

}  // namespace tutti::cuda
