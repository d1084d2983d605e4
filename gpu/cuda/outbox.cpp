#include "gpu/cuda/outbox.hpp"

#include <cassert>
#include <utility>

namespace tutti::cuda {

std::optional<size_t> Ring::take(size_t bytes) {
  if (count_ == most) return std::nullopt;
  size_t begin = 0;
  size_t end = size_;
  if (count_ > 0) {
    begin = newest().begin + newest().bytes;
    if (newest().begin < oldest().begin) {
      end = oldest().begin;
    } else if (size_ - begin < bytes) {
      begin = 0;
      end = oldest().begin;
    }
  }
  if (end - begin < bytes) return std::nullopt;
  pieces_[index(count_++)] = {begin, bytes};
  return begin;
}

void Ring::give_back() {
  first_ = index(1);
  --count_;
}

CudaOutbox::CudaOutbox(const PluginApi& api, int device, Staging& owner, size_t bytes)
    : api_(api), device_(device), owner_(owner), size_(Staging::padded(bytes)), ring_(size_) {
  try {
    open(size_);
  } catch (...) {
    close();
    throw;
  }
}

CudaOutbox::~CudaOutbox() { close(); }

void CudaOutbox::open(size_t bytes) {
  check(api_, api_.open_queue(device_, &copies_), "open a stream");
  check(api_, api_.allocate_pinned(bytes, 0, &host_), "pin memory");
  check(api_, api_.allocate(device_, bytes, &gathered_), "allocate memory");
  owner_.count_allocation();
  owner_.count_allocation();
  for (size_t i = 0; i < Ring::most; ++i) {
    check(api_, api_.open_event(device_, 0, &complete_[i]), "make an event");
    check(api_, api_.open_event(device_, 0, &arrived_[i]), "make an event");
  }
}

void CudaOutbox::close() {
  if (copies_ != nullptr) api_.close_queue(copies_);  // when the last parcel has arrived
  for (auto* const events : {&complete_, &arrived_}) {
    for (Event* const event : *events) {
      if (event != nullptr) api_.close_event(event);
    }
  }
  if (host_ != nullptr) api_.release_pinned(host_);
  if (gathered_ != nullptr) api_.release(gathered_);
}

std::byte* CudaOutbox::place(int64_t bytes) {
  assert(bytes > 0);
  if (std::exchange(placed_, false)) ring_.undo();  // it was given up
  const std::optional<size_t> begin = ring_.take(Staging::padded(static_cast<size_t>(bytes)));
  placed_ = begin.has_value();
  return placed_ ? gathered_ + *begin : nullptr;
}

void CudaOutbox::send() {
  assert(placed_);
  placed_ = false;
  const Ring::Piece& piece = ring_.newest();
  const size_t i = ring_.newest_index();
  check(api_, api_.mark(owner_.queue(), complete_[i]), "follow its work");
  check(api_, api_.follow(copies_, complete_[i]), "follow its work");
  check(api_, api_.copy(copies_, host_ + piece.begin, gathered_ + piece.begin, piece.bytes), "copy");
  check(api_, api_.mark(copies_, arrived_[i]), "follow its work");
}

std::span<const std::byte> CudaOutbox::arrived() {
  if (ring_.count() == (placed_ ? 1U : 0U)) return {};
  int yes = 0;
  check(api_, api_.reached(arrived_[ring_.oldest_index()], &yes), "copy");
  if (yes == 0) return {};
  return {host_ + ring_.oldest().begin, ring_.oldest().bytes};
}

}  // namespace tutti::cuda
