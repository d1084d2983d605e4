#include "actors/stream_context.hpp"

#include <caf/send.hpp>
#include <utility>

namespace tutti {

StreamContext::StreamContext(GpuOwner owner, StreamKey key, const StreamOptions& options, RecognizerInfo info)
    : owner_(std::move(owner)), key_(key), options_(options), info_(std::move(info)) {}

StreamContext& StreamContext::operator=(StreamContext&& other) noexcept {
  if (this == &other) return *this;
  release();
  owner_ = std::move(other.owner_);
  key_ = other.key_;
  options_ = other.options_;
  info_ = std::move(other.info_);
  return *this;
}

StreamContext::~StreamContext() { release(); }

void StreamContext::release() {
  caf::anon_send(owner_, release_atom_v, key_);
  owner_ = nullptr;
}

void StreamContext::restore(std::shared_ptr<const StreamSnapshot> snapshot) const {
  caf::anon_send(owner_, restore_atom_v, StreamStart{key_, std::move(snapshot)});
}

void StreamContext::feed(const AudioSamples& audio) const {
  caf::anon_send(owner_, feed_atom_v, key_, audio);
}

void StreamContext::finalize(Clock::time_point arrival) const {
  caf::anon_send(owner_, finalize_atom_v, SegmentCommand{key_, arrival});
}

void StreamContext::finish(Clock::time_point arrival) const {
  caf::anon_send(owner_, finish_atom_v, SegmentCommand{key_, arrival});
}

void StreamContext::reset() const { caf::anon_send(owner_, reset_atom_v, key_); }

}  // namespace tutti
