#include "gpu/cuda/staging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tutti::cuda {

void check(const PluginApi& api, int error, const char* what) {
  if (error != 0) throw DeviceError(fmt::format("the GPU cannot {}: {}", what, api.error_text(error)));
}

Staging::Staging(const PluginApi& api, int device, size_t bytes) : api_(api), device_(device) {
  check(api_, api_.open_queue(device_, &queue_), "open a stream");
  try {
    allocate(bytes);
  } catch (...) {
    release();
    api_.close_queue(queue_);
    throw;
  }
}

Staging::~Staging() {
  api_.close_queue(queue_);
  release();
}

void Staging::allocate(size_t bytes) {
  check(api_, api_.allocate_pinned(bytes, &memory_.host), "pin memory");
  check(api_, api_.allocate(device_, bytes, &memory_.device), "allocate memory");
  use_.allocations += 2;
  size_ = bytes;
}

void Staging::release() {
  if (memory_.host != nullptr) api_.release_pinned(memory_.host);
  if (memory_.device != nullptr) api_.release(memory_.device);
  memory_ = {};
  size_ = 0;
}

Staging::Place Staging::place(size_t bytes) {
  if (!fits(bytes)) {
    wait();
    if (bytes > size_) reserve(std::max(bytes, 2 * size_));
  }
  const Place at{memory_.host + used_, memory_.device + used_};
  used_ += padded(bytes);
  return at;
}

void Staging::reserve(size_t bytes) {
  if (bytes <= size_) return;
  wait();
  release();
  allocate(bytes);
}

std::byte* Staging::staged(const Place& at, size_t bytes) {
  for (size_t i = 0; i < std::min(staged_, remembered); ++i) {
    const Staged& known = lately_[i];
    if (known.bytes != bytes || std::memcmp(memory_.host + known.begin, at.host, bytes) != 0) continue;
    used_ -= padded(bytes);
    return memory_.device + known.begin;
  }
  lately_[staged_++ % remembered] = {static_cast<size_t>(at.host - memory_.host), bytes};
  copy(at.device, at.host, bytes);
  return at.device;
}

void Staging::copy(void* to, const void* from, size_t bytes) {
  if (bytes != 0) check(api_, api_.copy(queue_, to, from, bytes), "copy");
}

void Staging::wait() {
  check(api_, api_.wait(queue_), "finish its work");
  ++use_.waits;
  used_ = 0;
  staged_ = 0;
}

}  // namespace tutti::cuda
