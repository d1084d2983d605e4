#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/decoder_kv.hpp"
#include "decode/rescoring.hpp"
#include "model/conformer.hpp"

namespace tutti {

/// What the attention decoders found of one hypothesis.
struct RescoredHypothesis {
  std::vector<float> left;   ///< AttentionLogProbs of it
  std::vector<float> right;  ///< empty where the right decoder is not asked
  double attention = 0;      ///< attention_score
  double total = 0;          ///< combined_score
};

/// A segment whose hypotheses are to be rescored, and the outcome. Made by Rescorer::make_segment, so that it
/// can be filled again and again without allocating.
struct RescoredSegment {
  TensorView encoder_out;                 ///< (frames, D), at least one
  std::vector<CtcHypothesis> hypotheses;  ///< the first `count`
  size_t count = 0;

  std::vector<RescoredHypothesis> scores;  ///< of the first `count` hypotheses
  size_t best = 0;                         ///< the one with the largest total, the first among equals
  float confidence = 0;                    ///< in it
  bool failed = false;                     ///< a score is not finite: nothing else holds

  [[nodiscard]] std::span<const CtcHypothesis> nbest() const { return std::span(hypotheses).first(count); }
};

/// Scores the n-best lists of closed segments with a model's attention decoders, against the segments'
/// encoder frames: CTC/AED rescoring.
///
/// All hypotheses advance together, a few tokens a step, whatever segments they belong to, as many at a time
/// as there are lanes and pages for: the rest follow in a further batch, so that any number of segments is
/// scored. Keys and values of the hypotheses and of the encoder frames they look at lie in one pool of pages.
/// A hypothesis' scores are the same to the bit in any company.
class Rescorer {
 public:
  struct Limits {
    int max_frames = 1024;  ///< encoder frames of a segment
    int max_tokens = 1024;  ///< of a hypothesis, at most what the decoders were loaded for
    int max_hypotheses = 10;
    int max_lanes = 16;            ///< hypotheses that advance together
    int num_pages = 0;             ///< of keys and values; 0 = enough for the usual company
    DType kv_format = DType::f32;  ///< of keys and values: f32, bf16 or f8e4m3
  };
  /// Tokens of a hypothesis that one step takes. The same for every hypothesis in any company; more than one
  /// because the tokens are known, and the decoder's weights are read once for all of them.
  static constexpr int tokens_per_step = 8;

  /// `model` and `ops` outlive this. Throws std::invalid_argument for a model without decoders, or limits
  /// that they or the pages do not suffice for.
  Rescorer(const ConformerCtc& model, Ops& ops, const Limits& limits, const RescoringWeights& weights);

  [[nodiscard]] RescoredSegment make_segment() const;
  /// Fills in the outcomes. In the best hypothesis a token's log_prob becomes the logarithm of its
  /// token_confidence.
  void run(std::span<RescoredSegment> segments);

 private:
  enum class Direction : uint8_t { left, right };

  /// An encoder output that hypotheses of the batch look at.
  struct Source {
    size_t segment = 0;
    StreamId row = 0;
  };
  /// A hypothesis of the batch.
  struct Lane {
    size_t segment = 0;
    size_t hypothesis = 0;
    StreamId row = 0;
    size_t source = 0;
    int inputs = 0;  // sos and its tokens
    int read = 0;    // of them
  };
  /// The next hypothesis that has not been scored.
  struct Cursor {
    size_t segment = 0;
    size_t hypothesis = 0;
  };

  void score(std::span<RescoredSegment> segments, const AttentionDecoder& decoder, Direction direction);
  [[nodiscard]] bool take_batch(std::span<const RescoredSegment> segments, Cursor& next);
  [[nodiscard]] bool admit(std::span<const RescoredSegment> segments, const Cursor& next);
  void append_sources(std::span<const RescoredSegment> segments, const AttentionDecoder& decoder);
  [[nodiscard]] bool step(std::span<RescoredSegment> segments, const AttentionDecoder& decoder,
                          Direction direction);
  void add_rows(std::span<const RescoredSegment> segments, const Lane& lane, Direction direction);
  void release_batch();
  void choose(RescoredSegment& segment) const;

  const ConformerCtc& model_;
  Ops& ops_;
  Limits limits_;
  RescoringWeights weights_;
  DecoderKvCacheManager kv_;
  PagedDecoderKv self_;
  PagedDecoderKv source_;
  DecoderWorkspace workspace_;

  // The batch, and one step of it field by field, as the caches and the decoder take it.
  std::vector<Source> sources_;
  std::vector<Lane> lanes_;
  std::vector<size_t> active_;  // lanes of the step
  std::vector<StreamId> self_rows_;
  std::vector<StreamId> source_rows_;
  std::vector<int> counts_;  // tokens of each lane of the step
  std::vector<int32_t> lane_begin_;
  std::vector<int32_t> source_begin_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> next_tokens_;
  std::vector<float> log_probs_;
};

}  // namespace tutti
