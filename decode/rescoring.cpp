#include "decode/rescoring.hpp"

#include <cmath>
#include <numeric>

namespace tutti {

double attention_score(const AttentionLogProbs& log_probs, const RescoringWeights& weights) {
  const double left = std::accumulate(log_probs.left.begin(), log_probs.left.end(), 0.0);
  if (log_probs.right.empty()) return left;
  const double right = std::accumulate(log_probs.right.begin(), log_probs.right.end(), 0.0);
  const double reverse = weights.reverse;
  return (1 - reverse) * left + reverse * right;
}

double combined_score(double attention_score, double ctc_score, const RescoringWeights& weights) {
  return attention_score + static_cast<double>(weights.ctc) * ctc_score;
}

float hypothesis_confidence(double attention_score, size_t n) {
  return static_cast<float>(std::exp(attention_score / static_cast<double>(n + 1)));
}

float token_confidence(const AttentionLogProbs& log_probs, size_t i) {
  const float left = std::exp(log_probs.left[i]);
  if (log_probs.right.empty()) return left;
  const size_t last = log_probs.right.size() - 2;
  return (left + std::exp(log_probs.right[last - i])) / 2;
}

}  // namespace tutti
