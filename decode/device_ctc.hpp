#pragma once

#include "decode/ctc_decoder.hpp"
#include "gpu/ops.hpp"

namespace tutti {

/// CTC search on a device, all streams of a batch together: `begin_chunks` queues it behind what has made the
/// rows, and `decode_chunk`, once these are read, takes what it has found. The same as on the host, but for
/// how a device rounds exp and log1p.
class DeviceCtcDecoder final : public CtcDecoder {
 public:
  /// Finds what `host` finds, which makes n-best lists and hypotheses of states that were read. `ops` has
  /// made the search, for as many states as will be created, and batches have at most `rows` rows.
  DeviceCtcDecoder(std::unique_ptr<const CtcDecoder> host, std::unique_ptr<CtcSearch> search, Ops& ops,
                   int rows);

  [[nodiscard]] int top_k() const override { return host_->top_k(); }
  [[nodiscard]] std::unique_ptr<CtcState> create_state() const override;
  void reset_state(CtcState& state) const override;
  [[nodiscard]] CtcRows begin_chunks(std::span<const CtcLane> lanes, const CtcRows& rows) const override;
  void decode_chunk(CtcState& state, const CtcFrames& frames) const override;
  [[nodiscard]] std::span<const CtcToken> best(const CtcState& state) const override;
  /// Waits for the device.
  size_t write_nbest(const CtcState& state, std::vector<CtcHypothesis>& hypotheses) const override;
  [[nodiscard]] int64_t frames(const CtcState& state) const override;
  [[nodiscard]] std::span<const CtcToken> finalize_stream(CtcState& state) const override;
  /// Waits for the device.
  [[nodiscard]] std::vector<std::byte> save_state(const CtcState& state) const override;
  void load_state(CtcState& state, std::span<const std::byte> bytes) const override;
  [[nodiscard]] int64_t device_bytes(const CtcState& state) const override;
  void gather_state(const CtcState& state, std::byte* to) const override;

 private:
  std::unique_ptr<const CtcDecoder> host_;
  std::unique_ptr<CtcState> host_state_;  // one that was read
  std::vector<std::byte> fresh_;          // a reset state
  std::unique_ptr<CtcSearch> search_;
  Tensor best_ids_, best_log_probs_;  // (rows, 1) of a batch
  mutable std::vector<CtcSearchLane> lanes_;
  mutable int states_ = 0;  // created
};

}  // namespace tutti
