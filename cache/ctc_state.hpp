#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/errors.hpp"
#include "cache/stream_index.hpp"
#include "decode/ctc_decoder.hpp"
#include "gpu/ops.hpp"

namespace tutti {

/// A (decoder, state) pair that looks like a decoder of its own.
class StreamHandle {
 public:
  StreamHandle(const CtcDecoder& decoder, CtcState& state) : decoder_(&decoder), state_(&state) {}
  void decode_chunk(const CtcFrames& frames) const { decoder_->decode_chunk(*state_, frames); }
  void reset() const { decoder_->reset_state(*state_); }
  [[nodiscard]] std::span<const CtcToken> best() const { return decoder_->best(*state_); }
  size_t write_nbest(std::vector<CtcHypothesis>& hypotheses) const {
    return decoder_->write_nbest(*state_, hypotheses);
  }
  [[nodiscard]] int64_t frames() const { return decoder_->frames(*state_); }
  [[nodiscard]] std::span<const CtcToken> finalize_stream() const {
    return decoder_->finalize_stream(*state_);
  }
  [[nodiscard]] std::vector<std::byte> save() const { return decoder_->save_state(*state_); }
  void load(std::span<const std::byte> bytes) const { decoder_->load_state(*state_, bytes); }
  [[nodiscard]] int64_t device_bytes() const { return decoder_->device_bytes(*state_); }
  void gather(std::byte* to) const { decoder_->gather_state(*state_, to); }

 private:
  const CtcDecoder* decoder_;
  CtcState* state_;
};

/// One decoder and a pool of its states: a freed state is reset and reused, never destroyed.
class CtcStateCacheManager {
 public:
  /// Creates `states` states up front, so that admission allocates none.
  /// Throws std::invalid_argument without a decoder or for less than one state.
  CtcStateCacheManager(std::unique_ptr<const CtcDecoder> decoder, int states);

  /// Gives the stream a reset state, the one freed last.
  /// Throws std::invalid_argument for a duplicate, PoolExhausted when all states are in use.
  void allocate_stream(StreamId id);
  /// Throws UnknownStream.
  void free_stream(StreamId id);
  /// Valid until the stream is freed. Throws UnknownStream.
  [[nodiscard]] StreamHandle get_decoder(StreamId id) const;
  /// CtcDecoder::begin_chunks of a batch with these lanes. Throws UnknownStream.
  [[nodiscard]] CtcRows begin_chunks(std::span<const StreamId> ids, const BatchLayout& layout,
                                     const CtcRows& rows);
  [[nodiscard]] const CtcDecoder& decoder() const { return *decoder_; }
  [[nodiscard]] int pooled_states() const { return index_.num_free(); }

 private:
  std::unique_ptr<const CtcDecoder> decoder_;
  StreamIndex index_;  // stream -> its state
  std::vector<std::unique_ptr<CtcState>> states_;
  std::vector<CtcLane> lanes_;  // of the batch that begins
};

}  // namespace tutti
