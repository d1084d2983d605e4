#include "engine/rescorer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace tutti {
namespace {

constexpr int page_tokens = 16;

const AttentionDecoders& decoders_of(const ConformerCtc& model) {
  if (model.decoders() == nullptr) {
    throw std::invalid_argument("Rescorer: model " + model.name() + " was loaded without attention decoders");
  }
  return *model.decoders();
}

DecoderKvConfig kv_config(const ConformerCtc& model, const Rescorer::Limits& limits) {
  const AttentionDecoders& decoders = decoders_of(model);
  const ConformerSpec& spec = model.spec();
  DecoderKvConfig config;
  config.num_layers = decoders.left.num_layers();
  if (decoders.right) config.num_layers = std::max(config.num_layers, decoders.right->num_layers());
  config.n_kv_head = spec.decoder->attention_heads;
  config.head_dim = spec.output_size / spec.decoder->attention_heads;
  config.page_tokens = page_tokens;
  config.format = limits.kv_format;
  config.max_rows = 2 * limits.max_lanes;
  config.max_row_tokens = std::max(limits.max_frames, limits.max_tokens + 1);
  // A batch can be as small as one hypothesis and its frames, of whatever length; there is room for two
  // segments and all lanes when hypotheses have a quarter of the tokens they may have.
  const int smallest = std::max(
      config.max_rows, config.pages_for(limits.max_frames) + config.pages_for(limits.max_tokens + 1));
  const int usual = 2 * config.pages_for(limits.max_frames) +
                    limits.max_lanes * config.pages_for(limits.max_tokens / 4 + 1);
  config.num_pages = limits.num_pages == 0 ? std::max(smallest, usual) : limits.num_pages;
  if (config.num_pages < smallest) {
    throw std::invalid_argument("Rescorer: num_pages = " + std::to_string(config.num_pages) +
                                ", expected at least " + std::to_string(smallest));
  }
  if (limits.max_tokens > decoders.left.max_tokens()) {
    throw std::invalid_argument("Rescorer: max_tokens = " + std::to_string(limits.max_tokens) +
                                ", expected at most what the model was loaded for, " +
                                std::to_string(decoders.left.max_tokens()));
  }
  return config;
}

}  // namespace

Rescorer::Rescorer(const ConformerCtc& model, Ops& ops, const Limits& limits, const RescoringWeights& weights)
    : model_(model),
      ops_(ops),
      limits_(limits),
      weights_(weights),
      kv_(kv_config(model_, limits), ops),
      self_(kv_.pool(), limits.max_lanes, kv_.table_width()),
      source_(kv_.pool(), limits.max_lanes, kv_.table_width()),
      workspace_(decoders_of(model_).left.make_workspace(ops, limits.max_lanes * tokens_per_step)) {
  if (decoders_of(model_).right == nullptr) weights_.reverse = 0;
  const auto lanes = static_cast<size_t>(limits_.max_lanes);
  const size_t rows = lanes * tokens_per_step;
  sources_.reserve(lanes);
  lanes_.reserve(lanes);
  active_.reserve(lanes);
  self_rows_.reserve(lanes);
  source_rows_.reserve(lanes);
  counts_.reserve(lanes);
  lane_begin_.reserve(lanes + 1);
  source_begin_.reserve(lanes + 1);
  tokens_.reserve(rows);
  positions_.reserve(rows);
  next_tokens_.reserve(rows);
  log_probs_.reserve(rows);
}

RescoredSegment Rescorer::make_segment() const {
  const auto tokens = static_cast<size_t>(limits_.max_tokens);
  RescoredSegment segment;
  segment.hypotheses.resize(static_cast<size_t>(limits_.max_hypotheses));
  segment.scores.resize(segment.hypotheses.size());
  for (CtcHypothesis& hypothesis : segment.hypotheses) hypothesis.tokens.reserve(tokens);
  for (RescoredHypothesis& scores : segment.scores) {
    scores.left.reserve(tokens + 1);
    scores.right.reserve(tokens + 1);
  }
  return segment;
}

void Rescorer::run(std::span<RescoredSegment> segments) {
  for (RescoredSegment& segment : segments) {
    for (size_t i = 0; i < segment.count; ++i) {
      segment.scores[i].left.clear();
      segment.scores[i].right.clear();
    }
  }
  score(segments, model_.decoders()->left, Direction::left);
  if (weights_.reverse > 0) score(segments, *model_.decoders()->right, Direction::right);
  for (RescoredSegment& segment : segments) choose(segment);
}

void Rescorer::score(std::span<RescoredSegment> segments, const AttentionDecoder& decoder,
                     Direction direction) {
  Cursor next;
  while (take_batch(segments, next)) {
    append_sources(segments, decoder);
    while (step(segments, decoder, direction)) {
    }
    release_batch();
  }
}

// As many hypotheses, in their order, as there are lanes and pages for.
bool Rescorer::take_batch(std::span<const RescoredSegment> segments, Cursor& next) {
  sources_.clear();
  lanes_.clear();
  while (next.segment < segments.size()) {
    if (next.hypothesis == segments[next.segment].count) {
      next = {.segment = next.segment + 1, .hypothesis = 0};
    } else if (!admit(segments, next)) {
      break;
    } else {
      ++next.hypothesis;
    }
  }
  return !lanes_.empty();
}

bool Rescorer::admit(std::span<const RescoredSegment> segments, const Cursor& next) {
  if (lanes_.size() == static_cast<size_t>(limits_.max_lanes)) return false;
  const RescoredSegment& segment = segments[next.segment];
  const auto inputs = static_cast<int>(segment.hypotheses[next.hypothesis].tokens.size()) + 1;
  const auto frames = static_cast<int>(segment.encoder_out.rows());
  const bool new_source = sources_.empty() || sources_.back().segment != next.segment;
  const std::array<int, 2> ceilings{inputs, frames};
  if (!kv_.can_admit(std::span(ceilings).first(new_source ? 2 : 1))) return false;
  const auto lane_row = static_cast<StreamId>(lanes_.size());
  if (new_source) {
    // The rows of sources come after those of all lanes.
    const size_t row = static_cast<size_t>(limits_.max_lanes) + sources_.size();
    sources_.push_back({.segment = next.segment, .row = static_cast<StreamId>(row)});
    kv_.allocate_row(sources_.back().row, frames);
  }
  kv_.allocate_row(lane_row, inputs);
  lanes_.push_back({.segment = next.segment,
                    .hypothesis = next.hypothesis,
                    .row = lane_row,
                    .source = sources_.size() - 1,
                    .inputs = inputs});
  return true;
}

void Rescorer::append_sources(std::span<const RescoredSegment> segments, const AttentionDecoder& decoder) {
  for (const Source& source : sources_) {
    const TensorView& frames = segments[source.segment].encoder_out;
    for (int64_t begin = 0; begin < frames.rows(); begin += workspace_.rows) {
      const TensorView slice = frames.slice(begin, std::min<int64_t>(workspace_.rows, frames.rows() - begin));
      const std::array<int, 1> count{static_cast<int>(slice.rows())};
      kv_.prepare_step({&source.row, 1}, count);
      kv_.fill_batch({&source.row, 1}, source_);
      decoder.append_source(ops_, workspace_, slice, source_);
      kv_.commit_step(source.row, count[0]);
    }
  }
}

// The next tokens of every hypothesis that has some left.
bool Rescorer::step(std::span<RescoredSegment> segments, const AttentionDecoder& decoder,
                    Direction direction) {
  active_.clear();
  self_rows_.clear();
  source_rows_.clear();
  counts_.clear();
  lane_begin_.assign(1, 0);
  source_begin_.assign(1, 0);
  tokens_.clear();
  positions_.clear();
  next_tokens_.clear();
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const Lane& lane = lanes_[i];
    if (lane.read == lane.inputs) continue;
    const StreamId source = sources_[lane.source].row;
    if (source_rows_.empty() || source_rows_.back() != source) {
      source_rows_.push_back(source);
      source_begin_.push_back(source_begin_.back());
    }
    active_.push_back(i);
    self_rows_.push_back(lane.row);
    counts_.push_back(std::min(tokens_per_step, lane.inputs - lane.read));
    add_rows(segments, lane, direction);
    lane_begin_.push_back(static_cast<int32_t>(tokens_.size()));
    source_begin_.back() = lane_begin_.back();
  }
  if (active_.empty()) return false;

  kv_.prepare_step(self_rows_, counts_);
  kv_.fill_batch(self_rows_, self_);
  kv_.fill_batch(source_rows_, source_);
  const TensorView log_probs = decoder.forward(
      ops_, workspace_,
      {.hypotheses = {lane_begin_}, .sources = {source_begin_}, .tokens = tokens_, .positions = positions_},
      self_, source_);
  log_probs_.resize(next_tokens_.size());
  ops_.pick(log_probs, next_tokens_, log_probs_);
  for (size_t i = 0; i < active_.size(); ++i) {
    Lane& lane = lanes_[active_[i]];
    kv_.commit_step(lane.row, counts_[i]);
    lane.read += counts_[i];
    RescoredHypothesis& scores = segments[lane.segment].scores[lane.hypothesis];
    std::vector<float>& to = direction == Direction::left ? scores.left : scores.right;
    to.insert(to.end(), log_probs_.begin() + lane_begin_[i], log_probs_.begin() + lane_begin_[i + 1]);
  }
  return true;
}

// What the decoder reads (sos and the tokens in its direction), and what comes next in the hypothesis.
void Rescorer::add_rows(std::span<const RescoredSegment> segments, const Lane& lane, Direction direction) {
  const std::vector<CtcToken>& hypothesis = segments[lane.segment].hypotheses[lane.hypothesis].tokens;
  const DecoderSpec& spec = *model_.spec().decoder;
  const auto token = [&](int i) {
    const auto at = static_cast<size_t>(i);
    return hypothesis[direction == Direction::left ? at : hypothesis.size() - 1 - at].id;
  };
  const int end = std::min(lane.read + tokens_per_step, lane.inputs);
  for (int i = lane.read; i < end; ++i) {
    tokens_.push_back(i == 0 ? spec.sos_id : token(i - 1));
    positions_.push_back(i);
    next_tokens_.push_back(i + 1 == lane.inputs ? spec.eos_id : token(i));
  }
}

void Rescorer::release_batch() {
  for (const Lane& lane : lanes_) kv_.free_row(lane.row);
  for (const Source& source : sources_) kv_.free_row(source.row);
}

void Rescorer::choose(RescoredSegment& segment) const {
  segment.best = 0;
  segment.failed = false;
  for (size_t i = 0; i < segment.count; ++i) {
    RescoredHypothesis& scores = segment.scores[i];
    scores.attention = attention_score({scores.left, scores.right}, weights_);
    scores.total = combined_score(scores.attention, segment.hypotheses[i].score, weights_);
    if (!std::isfinite(scores.total)) segment.failed = true;
    if (scores.total > segment.scores[segment.best].total) segment.best = i;
  }
  if (segment.failed) return;
  const RescoredHypothesis& best = segment.scores[segment.best];
  std::vector<CtcToken>& tokens = segment.hypotheses[segment.best].tokens;
  segment.confidence = hypothesis_confidence(best.attention, tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i].log_prob = std::log(token_confidence({best.left, best.right}, i));
  }
}

}  // namespace tutti
