#pragma once

#include <memory>
#include <vector>

#include "gpu/ops.hpp"
#include "model/conformer.hpp"

namespace tutti {

/// Holds the log-probabilities of a model against two references:
/// * the same weights in fp32 through the panel kernel, every stream alone, over enough chunks to fill the
///   history: batching, caches and positions are in it;
/// * its own encoder output times the CTC layer in double precision, by plain loops, on the last chunk.
class LogprobCheck {
 public:
  /// Computes the first reference for `lanes` streams of pseudo-speech.
  LogprobCheck(Checkpoint reference, int lanes);

  /// The largest absolute difference of any log-probability; `model` runs its streams in one batch.
  [[nodiscard]] double max_difference(std::shared_ptr<const ConformerCtc> model,
                                      std::unique_ptr<Ops> ops) const;

 private:
  struct Output;
  class Batch;
  [[nodiscard]] double difference_from_plain_loops(const Output& out) const;

  int lanes_;
  std::vector<std::vector<float>> features_;   // of each lane: frames x mel
  std::vector<std::vector<float>> log_probs_;  // of each chunk of each lane: rows x vocab
  std::vector<float> ctc_weight_;
  std::vector<float> ctc_bias_;
};

}  // namespace tutti
