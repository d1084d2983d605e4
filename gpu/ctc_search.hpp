#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/ctc_state.hpp"
#include "gpu/tensor.hpp"

namespace tutti {

/// One stream's rows of a batch that is searched.
struct CtcSearchLane {
  int32_t state = 0;
  int32_t first_row = 0;
  int32_t rows = 0;
  int32_t restart = 0;  ///< whether they begin a new hypothesis
};

/// CTC searches of many streams, as CtcSearchSpec says, on a device and with their states in its memory. Made
/// by an Ops, and used by its thread alone, which destroys it first. Its operations are queued behind those
/// of the Ops.
class CtcSearch {
 public:
  virtual ~CtcSearch() = default;

  /// Of the k best tokens of each row, best first, ids (rows, k) i32 and log_probs (rows, k), with k at most
  /// the beam. A state is in one lane at most. best_ids and best_log_probs (rows, 1) get the rows' best; the
  /// log-probability is NaN where one of the k is not finite, and the lane's search stops before it.
  virtual void search(std::span<const CtcSearchLane> lanes, const TensorView& ids,
                      const TensorView& log_probs, const TensorView& best_ids,
                      const TensorView& best_log_probs) = 0;
  /// The best hypothesis after the last `search` of the state that was waited for, by Ops::read. Valid until
  /// the next one.
  [[nodiscard]] virtual std::span<const CtcToken> best(int state) const = 0;

  /// What is used of a state that was searched and waited for: for_each_used_part.
  [[nodiscard]] virtual int64_t used_bytes(int state) const = 0;
  /// Copies that to device memory.
  virtual void gather(int state, std::byte* to) = 0;
  /// Copies it to host memory, and waits.
  virtual void read(int state, std::byte* to) = 0;
  /// Makes a state of it again, whose best hypothesis is `best`. It has been read when this returns.
  virtual void write(int state, std::span<const std::byte> used, std::span<const CtcToken> best) = 0;
};

}  // namespace tutti
