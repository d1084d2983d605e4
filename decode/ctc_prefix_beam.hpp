#pragma once

#include "decode/ctc_decoder.hpp"

namespace tutti {

/// CTC prefix beam search (Hannun et al. 2014, as WeNet's search.py has it): in each frame the `beam` best
/// tokens extend the `beam` best prefixes; a prefix keeps the summed log-probability of its alignments that
/// end in blank and of those that do not, in double. A token's frames are those of the prefix's single best
/// (Viterbi) alignment.
class CtcPrefixBeamDecoder final : public CtcDecoder {
 public:
  static constexpr int max_beam = 64;

  /// `beam` from 1 to max_beam. A prefix holds at most `max_tokens` tokens; what comes after is dropped.
  CtcPrefixBeamDecoder(int blank_id, int beam, int max_tokens);

  [[nodiscard]] int top_k() const override { return beam_; }
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
  int blank_id_;
  int beam_;
  int max_tokens_;
};

}  // namespace tutti
