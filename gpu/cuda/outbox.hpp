#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "gpu/cuda/staging.hpp"
#include "gpu/outbox.hpp"

namespace tutti::cuda {

/// Memory that is given out from one end of a ring and taken back from the other.
class Ring {
 public:
  /// What may be given out at a time.
  static constexpr size_t most = 64;

  explicit Ring(size_t size) : size_(size) {}

  /// Where the next so many bytes lie, in one piece; nothing while there is no room for them.
  [[nodiscard]] std::optional<size_t> take(size_t bytes);
  /// Takes the oldest piece back.
  void give_back();
  /// The newest piece is not needed.
  void undo() { --count_; }

  struct Piece {
    size_t begin, bytes;
  };
  [[nodiscard]] const Piece& oldest() const { return pieces_[first_]; }
  [[nodiscard]] const Piece& newest() const { return pieces_[index(count_ - 1)]; }
  /// Of the oldest piece, the newest and the next one, in [0, most).
  [[nodiscard]] size_t oldest_index() const { return first_; }
  [[nodiscard]] size_t newest_index() const { return index(count_ - 1); }
  [[nodiscard]] size_t count() const { return count_; }

 private:
  [[nodiscard]] size_t index(size_t i) const { return (first_ + i) % most; }

  size_t size_;
  std::array<Piece, most> pieces_{};
  size_t first_ = 0;
  size_t count_ = 0;
};

/// An Outbox over a CUDA stream of its own. Parcels are gathered in device memory by the owner's stream,
/// which therefore never waits for the bus, and copied from there to pinned memory by the other one once an
/// event says that they are complete. A second event says that they have arrived; only then is their memory
/// given out again.
class CudaOutbox final : public Outbox {
 public:
  /// `owner` outlives it.
  CudaOutbox(const PluginApi& api, int device, Staging& owner, size_t bytes);
  ~CudaOutbox() override;
  CudaOutbox(const CudaOutbox&) = delete;
  CudaOutbox& operator=(const CudaOutbox&) = delete;

  [[nodiscard]] int64_t capacity() const override { return static_cast<int64_t>(size_); }
  [[nodiscard]] std::byte* place(int64_t bytes) override;
  void send() override;
  [[nodiscard]] std::span<const std::byte> arrived() override;
  void drop() override { ring_.give_back(); }

 private:
  void open(size_t bytes);
  void close();

  const PluginApi& api_;
  int device_;
  Staging& owner_;
  Queue* copies_ = nullptr;
  size_t size_;
  std::byte* host_ = nullptr;
  std::byte* gathered_ = nullptr;
  Ring ring_;
  bool placed_ = false;  // the newest piece, which is not sent
  std::array<Event*, Ring::most> complete_{};
  std::array<Event*, Ring::most> arrived_{};
};

}  // namespace tutti::cuda
