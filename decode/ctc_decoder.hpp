#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu/ctc_state.hpp"
#include "gpu/tensor.hpp"

namespace tutti {

/// The rows of one stream's chunk as the CTC head leaves them: for each frame the `k` best tokens and their
/// log probabilities, best first.
struct CtcFrames {
  int frames = 0;
  int k = 0;
  const int32_t* ids = nullptr;      ///< frames x k
  const float* log_probs = nullptr;  ///< frames x k
};

/// One entry of an n-best list.
struct CtcHypothesis {
  std::vector<CtcToken> tokens;
  double score = 0;  ///< log of the summed probability of all alignments that the search kept
};

/// Decoder state of one stream, reused across streams by CtcStateCacheManager.
class CtcState {
 public:
  virtual ~CtcState() = default;
};

/// The CTC head's best tokens of a batch, where the device has them: (rows, k) each.
struct CtcRows {
  TensorView ids;
  TensorView log_probs;
};

/// One stream's rows of a batch.
struct CtcLane {
  CtcState* state = nullptr;
  int first_row = 0;
  int frames = 0;
};

/// Streaming CTC search. A decoder is stateless and serves every stream; states are created by it.
class CtcDecoder {
 public:
  virtual ~CtcDecoder() = default;
  /// How many candidates per frame it reads.
  [[nodiscard]] virtual int top_k() const = 0;
  /// Allocates a state that holds up to max_tokens() tokens without allocating again.
  [[nodiscard]] virtual std::unique_ptr<CtcState> create_state() const = 0;
  virtual void reset_state(CtcState& state) const = 0;
  /// Comes before the `decode_chunk`s of a batch. A decoder that searches on the device begins here, and
  /// returns rows of less to be read to host memory, of which decode_chunk is then given the lanes'.
  [[nodiscard]] virtual CtcRows begin_chunks(std::span<const CtcLane> /*lanes*/, const CtcRows& rows) const {
    return rows;
  }
  virtual void decode_chunk(CtcState& state, const CtcFrames& frames) const = 0;
  /// The best hypothesis so far. Valid until the next call with this state.
  [[nodiscard]] virtual std::span<const CtcToken> best(const CtcState& state) const = 0;
  /// Replaces the first entries of `hypotheses` by all that the search still considers, best first, and
  /// returns how many there are, at least one; entries beyond keep their capacity.
  virtual size_t write_nbest(const CtcState& state, std::vector<CtcHypothesis>& hypotheses) const = 0;
  /// Frames decoded since the last reset.
  [[nodiscard]] virtual int64_t frames(const CtcState& state) const = 0;
  /// Closes the segment: the last partial hypothesis becomes the final one.
  [[nodiscard]] virtual std::span<const CtcToken> finalize_stream(CtcState& state) const = 0;
  /// A state as bytes: what load_state of a decoder created alike, in the same program, makes a state of that
  /// goes on the same to the bit. load_state throws std::invalid_argument for bytes that end too early.
  [[nodiscard]] virtual std::vector<std::byte> save_state(const CtcState& state) const = 0;
  virtual void load_state(CtcState& state, std::span<const std::byte> bytes) const = 0;
  /// Bytes of the state that the device has, and `gather_state` copies, between operations of its Ops, to
  /// other device memory: those of save_state, which needs a wait for them. 0 where save_state needs none.
  [[nodiscard]] virtual int64_t device_bytes(const CtcState& /*state*/) const { return 0; }
  virtual void gather_state(const CtcState& /*state*/, std::byte* /*to*/) const {}
};

/// Best token per frame, repeats merged, blanks dropped.
class CtcGreedyDecoder final : public CtcDecoder {
 public:
  /// A state holds at most `max_tokens` tokens; what comes after is dropped, so the engine closes a segment
  /// before that.
  explicit CtcGreedyDecoder(int blank_id, int max_tokens);

  [[nodiscard]] int top_k() const override { return 1; }
  [[nodiscard]] std::unique_ptr<CtcState> create_state() const override;
  void reset_state(CtcState& state) const override;
  void decode_chunk(CtcState& state, const CtcFrames& frames) const override;
  [[nodiscard]] std::span<const CtcToken> best(const CtcState& state) const override;
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
