#pragma once

#include <memory>

#include "actors/interfaces.hpp"

namespace tutti {

/// A lease on one stream of one owner: the only way a stream actor reaches caches and kernels, and it reaches
/// them by message alone. Its methods send; its destruction sends `release`. A lease that outlived its stream
/// holds a stale generation, which the engine ignores and counts.
class StreamContext {
 public:
  StreamContext(GpuOwner owner, StreamKey key, const StreamOptions& options, RecognizerInfo info);
  StreamContext(StreamContext&& other) noexcept = default;
  StreamContext& operator=(StreamContext&& other) noexcept;
  ~StreamContext();

  /// First of all, where it is not a new stream.
  void restore(std::shared_ptr<const StreamSnapshot> snapshot) const;
  void feed(const AudioSamples& audio) const;
  void finalize(Clock::time_point arrival) const;
  void finish(Clock::time_point arrival) const;
  void reset() const;

  [[nodiscard]] const GpuOwner& owner() const { return owner_; }
  [[nodiscard]] StreamKey key() const { return key_; }
  [[nodiscard]] const StreamOptions& options() const { return options_; }
  [[nodiscard]] const RecognizerInfo& info() const { return info_; }

 private:
  void release();

  GpuOwner owner_;  // null once moved from
  StreamKey key_;
  StreamOptions options_;
  RecognizerInfo info_;
};

}  // namespace tutti
