#pragma once

#include "decode/ctc_decoder.hpp"

namespace tutti {

/// CTC prefix beam search: BeamSearch (gpu/ctc_beam.hpp), stream by stream.
class CtcPrefixBeamDecoder final : public CtcDecoder {
 public:
  /// `beam` from 1 to max_ctc_beam. A prefix holds at most `max_tokens` tokens; what comes after is dropped.
  CtcPrefixBeamDecoder(int blank_id, int beam, int max_tokens);

  [[nodiscard]] int top_k() const override { return spec_.beam; }
  [[nodiscard]] std::unique_ptr<CtcState> create_state() const override;
  void reset_state(CtcState& state) const override;
  void decode_chunk(CtcState& state, const CtcFrames& frames) const override;
  [[nodiscard]] std::span<const CtcToken> best(const CtcState& state) const override;
  /// All prefixes of the beam.
  size_t write_nbest(const CtcState& state, std::vector<CtcHypothesis>& hypotheses) const override;
  [[nodiscard]] int64_t frames(const CtcState& state) const override;
  [[nodiscard]] std::span<const CtcToken> finalize_stream(CtcState& state) const override;
  [[nodiscard]] std::vector<std::byte> save_state(const CtcState& state) const override;
  void load_state(CtcState& state, std::span<const std::byte> bytes) const override;

 private:
  CtcSearchSpec spec_;
  CtcStateLayout layout_;
};

}  // namespace tutti
