#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "cache/errors.hpp"
#include "decode/ctc_decoder.hpp"

namespace tutti {

/// A (decoder, state) pair that looks like a decoder of its own.
class StreamHandle {
 public:
  StreamHandle(const CtcDecoder& decoder, CtcState& state) : decoder_(&decoder), state_(&state) {}
  void decode_chunk(const CtcFrames& frames) const { decoder_->decode_chunk(*state_, frames); }
  void reset() const { decoder_->reset_state(*state_); }
  [[nodiscard]] std::span<const CtcToken> best() const { return decoder_->best(*state_); }
  [[nodiscard]] int64_t frames() const { return decoder_->frames(*state_); }
  [[nodiscard]] std::span<const CtcToken> finalize_stream() const { return decoder_->finalize_stream(*state_); }

 private:
  const CtcDecoder* decoder_;
  CtcState* state_;
};

/// One decoder and a pool of its states: a freed state is reset and reused, never destroyed.
class CtcStateCacheManager {
 public:
  /// Creates `states` states up front, so that admission allocates none.
  CtcStateCacheManager(std::unique_ptr<const CtcDecoder> decoder, int states);

  /// Throws std::invalid_argument for a duplicate, PoolExhausted when all states are in use.
  void allocate_stream(StreamId id);
  void free_stream(StreamId id);
  /// Throws UnknownStream.
  [[nodiscard]] StreamHandle get_decoder(StreamId id) const;
  [[nodiscard]] const CtcDecoder& decoder() const { return *decoder_; }
  [[nodiscard]] int pooled_states() const { return static_cast<int>(pool_.size()); }

 private:
  std::unique_ptr<const CtcDecoder> decoder_;
  std::vector<std::unique_ptr<CtcState>> pool_;
  std::unordered_map<StreamId, std::unique_ptr<CtcState>> states_;
};

}  // namespace tutti
