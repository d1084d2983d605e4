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
  try {
    check(api_, api_.open_queue(device_, &queue_), "open a stream");
    check(api_, api_.open_event(device_, 1, &timed_from_), "make an event");
    check(api_, api_.open_event(device_, 1, &timed_to_), "make an event");
    allocate(places_, bytes);
  } catch (...) {
    close();
    throw;
  }
}

Staging::~Staging() { close(); }

void Staging::close() {
  if (queue_ != nullptr) api_.close_queue(queue_);
  for (Event* const event : {timed_from_, timed_to_}) {
    if (event != nullptr) api_.close_event(event);
  }
  release(places_);
  release(recorded_);
}

void Staging::allocate(Region& region, size_t bytes) {
  check(api_, api_.allocate_pinned(bytes, 0, &region.memory.host), "pin memory");
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

void Staging::begin_timing() {
  if (timing_ == Timing::begun) return;
  check(api_, api_.mark(queue_, timed_from_), "measure its work");
  timing_ = Timing::begun;
}

void Staging::end_timing() {
  if (timing_ != Timing::begun) return;
  check(api_, api_.mark(queue_, timed_to_), "measure its work");
  timing_ = Timing::ended;
}

void Staging::write(void* to, const std::byte* from, size_t bytes) {
  // Of a large array, pieces, so that there are places for them.
  constexpr size_t piece = size_t{1} << 20;
  for (size_t done = 0; done < bytes; done += piece) {
    const size_t now = std::min(piece, bytes - done);
    const Place at = place(now);
    std::memcpy(at.host, from + done, now);
    copy(static_cast<std::byte*>(to) + done, at.host, now);
  }
}

void Staging::copy(void* to, const void* from, size_t bytes) {
  if (bytes != 0) check(api_, api_.copy(queue_, to, from, bytes), "copy");
}

void Staging::wait() {
  check(api_, api_.wait(queue_), "finish its work");
  ++use_.waits;
  if (timing_ == Timing::ended) {
    float milliseconds = 0;
    check(api_, api_.elapsed(timed_from_, timed_to_, &milliseconds), "measure its work");
    use_.seconds += static_cast<double>(milliseconds) / 1000;
    timing_ = Timing::none;
  }
  for (Region* region : {&places_, &recorded_}) region->used = region->staged = 0;
}

}  // namespace tutti::cuda
