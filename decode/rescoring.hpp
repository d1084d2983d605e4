#pragma once

#include <span>

#include "decode/ctc_decoder.hpp"

namespace tutti {

/// How the scores of a hypothesis add up (WeNet's attention_rescoring):
///   (1 - reverse) * left + reverse * right + ctc * log P_ctc
/// where left and right are sums of log-probabilities, without any normalisation by length.
struct RescoringWeights {
  float ctc = 0.5F;
  float reverse = 0;  ///< 0: the right decoder is not asked
};

/// What the attention decoders say of a hypothesis of n tokens: log-probabilities of each next token and, at
/// the end, of eos.
struct AttentionLogProbs {
  std::span<const float> left;   ///< n + 1, from the first token
  std::span<const float> right;  ///< n + 1, from the last token; empty where reverse is 0
};

/// The decoders' part of the score.
[[nodiscard]] double attention_score(const AttentionLogProbs& log_probs, const RescoringWeights& weights);
[[nodiscard]] double combined_score(double attention_score, double ctc_score,
                                    const RescoringWeights& weights);

/// Confidence in the whole of a hypothesis of n tokens: exp of its attention score per token, eos counted.
[[nodiscard]] float hypothesis_confidence(double attention_score, size_t n);
/// Probability of token i: the mean of both directions, where there are two.
[[nodiscard]] float token_confidence(const AttentionLogProbs& log_probs, size_t i);

}  // namespace tutti
