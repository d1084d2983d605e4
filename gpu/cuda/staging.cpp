#include "gpu/cuda/staging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace tutti::cuda {

void check(const PluginApi& api, int error, const char* what) {
  if (error != 0) throw DeviceError(fmt::format("the GPU cannot {}: {}", what, api.error_text(error)));
}

Staging::Staging(const PluginApi& api, int device, size_t bytes) : api_(api), device_(device) {
  check(api_, api_.open_queue(device_, &queue_), "open a stream");
  try {
    allocate(places_, bytes);
  } catch (...) {
    release(places_);
    api_.close_queue(queue_);
    throw;
  }
}

Staging::~Staging() {
  api_.close_queue(queue_);
  release(places_);
  release(recorded_);
}

void Staging::allocate(Region& region, size_t bytes) {
  check(api_, api_.allocate_pinned(bytes, &region.memory.host), "pin memory");
  check(api_, api_.allocate(device_, bytes, &region.memory.device), "allocate memory");
  use_.allocations += 2;
  region.size = bytes;
}

void Staging::release(Region& region) {
  if (region.memory.host != nullptr) api_.release_pinned(region.memory.host);
  if (region.memory.device != nullptr) api_.release(region.memory.device);
  region = {};
}

void Staging::reserve(Region& region, size_t bytes) {
  if (bytes <= region.size) return;
  wait();
  release(region);
  allocate(region, bytes);
}

Staging::Place Staging::place(size_t bytes) {
  if (!fits(bytes)) {
    if (current_ == &recorded_) throw std::logic_error("recorded work needs more memory than it was given");
    wait();
    reserve(places_, std::max(bytes, bytes > places_.size ? 2 * places_.size : 0));
  }
  const Place at{current_->memory.host + current_->used, current_->memory.device + current_->used};
  current_->used += padded(bytes);
  return at;
}

std::byte* Staging::staged(const Place& at, size_t bytes) {
  Region& region = *current_;
  for (size_t i = 0; i < std::min(region.staged, Region::remembered); ++i) {
    const Region::Staged& known = region.lately[i];
    if (known.bytes != bytes || std::memcmp(region.memory.host + known.begin, at.host, bytes) != 0) continue;
    region.used -= padded(bytes);
    return region.memory.device + known.begin;
  }
  region.lately[region.staged++ % Region::remembered] = {static_cast<size_t>(at.host - region.memory.host),
                                                         bytes};
  copy(at.device, at.host, bytes);
  return at.device;
}

bool Staging::begin_recorded() {
  if (recorded_.size == 0 || recorded_.used != 0) return false;
  current_ = &recorded_;
  return true;
}

void Staging::end_recorded() { current_ = &places_; }

void Staging::copy(void* to, const void* from, size_t bytes) {
  if (bytes != 0) check(api_, api_.copy(queue_, to, from, bytes), "copy");
}

void Staging::wait() {
  check(api_, api_.wait(queue_), "finish its work");
  ++use_.waits;
  for (Region* region : {&places_, &recorded_}) region->used = region->staged = 0;
}

}  // namespace tutti::cuda
