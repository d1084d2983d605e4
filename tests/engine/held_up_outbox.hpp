#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "gpu/forwarding_ops.hpp"

namespace tutti {

/// How fast parcels leave the devices of a test.
struct Traffic {
  size_t most = 2;          ///< on their way
  bool is_held_up = false;  ///< none arrives
};

/// An outbox over operations that are done at once.
class HeldUpOutbox final : public Outbox {
 public:
  HeldUpOutbox(int64_t capacity, std::shared_ptr<const Traffic> traffic)
      : capacity_(capacity), traffic_(std::move(traffic)) {}

  [[nodiscard]] int64_t capacity() const override { return capacity_; }
  [[nodiscard]] std::byte* place(int64_t bytes) override {
    if (parcels_.size() == traffic_->most) return nullptr;
    placed_.assign(static_cast<size_t>(bytes), std::byte{});
    return placed_.data();
  }
  void send() override { parcels_.push_back(std::exchange(placed_, {})); }
  [[nodiscard]] std::span<const std::byte> arrived() override {
    if (parcels_.empty() || traffic_->is_held_up) return {};
    return parcels_.front();
  }
  void drop() override { parcels_.pop_front(); }

 private:
  int64_t capacity_;
  std::shared_ptr<const Traffic> traffic_;
  std::vector<std::byte> placed_;
  std::deque<std::vector<std::byte>> parcels_;
};

/// The operations of another Ops, with such an outbox.
class HeldUpOps final : public ForwardingOps {
 public:
  HeldUpOps(std::unique_ptr<Ops> ops, std::shared_ptr<const Traffic> traffic)
      : ForwardingOps(std::move(ops)), traffic_(std::move(traffic)) {}
  std::unique_ptr<Outbox> make_outbox(int64_t bytes) override {
    return std::make_unique<HeldUpOutbox>(bytes, traffic_);
  }

 private:
  std::shared_ptr<const Traffic> traffic_;
};

}  // namespace tutti
