#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti::cuda {

/// Work that a queue has recorded, to be repeated as a whole: a CUDA graph.
struct Graph;

/// What a queue does with work: runs it; records it instead; or only compares it with what was recorded.
enum class QueueMode : int32_t { run, record, compare };

/// Tells whether a queue is given the same work again, by a hash over kernels, copies and all their
/// arguments. What device memory and pinned memory hold is not among them.
class Recording {
 public:
  void start(QueueMode mode) {
    mode_ = mode;
    hash_ = basis;
  }
  /// Ends it, and returns the hash.
  [[nodiscard]] uint64_t finish() {
    mode_ = QueueMode::run;
    return hash_;
  }
  [[nodiscard]] QueueMode mode() const { return mode_; }

  /// Notes a piece of work; false where it is not to be queued.
  template <class... T>
  [[nodiscard]] bool takes(const T&... parts) {
    if (mode_ == QueueMode::run) return true;
    (note(parts), ...);
    return mode_ == QueueMode::record;
  }

 private:
  // FNV-1a (Fowler, Noll and Vo).
  static constexpr uint64_t basis = 0xcbf29ce484222325;
  static constexpr uint64_t prime = 0x100000001b3;

  template <class T>
  void note(T part) {
    __builtin_clear_padding(&part);
    std::array<unsigned char, sizeof(T)> bytes;
    std::memcpy(bytes.data(), &part, sizeof(T));
    for (const unsigned char byte : bytes) hash_ = (hash_ ^ byte) * prime;
  }

  QueueMode mode_ = QueueMode::run;
  uint64_t hash_ = basis;
};

}  // namespace tutti::cuda
