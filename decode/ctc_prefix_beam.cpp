#include "decode/ctc_prefix_beam.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "decode/counted_pool.hpp"
#include "decode/state_bytes.hpp"

namespace tutti {

namespace {

constexpr double log_zero = -std::numeric_limits<double>::infinity();
constexpr int32_t none = -1;

double log_add(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == log_zero ? a : a + std::log1p(std::exp(b - a));
}

/// A prefix, as a node of the trie of all prefixes the beam stems from. Living children are listed, so that a
/// prefix that left the beam and comes back is known to be the parent of those that stayed.
struct Prefix {
  int32_t parent = none;
  int32_t references = 0;
  int32_t token = 0;
  int32_t length = 0;
  int32_t first_child = none;
  int32_t next_sibling = none;
  int32_t in_beam = none;  // index in the current beam
};

/// One token of one alignment; the alignment is the chain of parents.
struct AlignedToken {
  int32_t parent = none;
  int32_t references = 0;
  CtcToken token;
};

/// The two ways a prefix's alignments can end, blank and not, with the best alignment of each.
struct Scores {
  double blank = log_zero;  // summed over alignments
  double token = log_zero;
  double best_blank = log_zero;  // of the best alignment
  double best_token = log_zero;
  int32_t path_blank = none;  // into the alignment pool; a reference is held
  int32_t path_token = none;

  [[nodiscard]] double total() const { return log_add(blank, token); }
  [[nodiscard]] double best() const { return std::max(best_blank, best_token); }
  [[nodiscard]] int32_t path() const { return best_blank > best_token ? path_blank : path_token; }
};

/// A prefix of the next beam, before pruning. Paths are described rather than built: most candidates are
/// pruned.
struct Candidate {
  enum class PathStep : uint8_t { keep, repeat, append };
  int32_t prefix = none;  // trie node, or none: `base` extended by `token`
  int32_t base = none;    // index in the current beam
  int32_t token = 0;
  Scores scores{};                 // path_* hold no references yet
  PathStep step = PathStep::keep;  // how path_token becomes the path
  float token_log_prob = 0;
  double rank = log_zero;
};

struct Entry {
  int32_t prefix = none;
  Scores scores{};
};

class BeamState final : public CtcState {
 public:
  BeamState(int blank_id, int beam, int max_tokens)
      : blank_id_(blank_id),
        beam_width_(beam),
        max_tokens_(max_tokens),
        // While a frame is worked on, the old and the new beam exist side by side, each prefix with two
        // paths.
        prefixes_(2 * beam * (max_tokens + 1) + 1),
        paths_(4 * beam * (max_tokens + 1)) {
    const auto width = static_cast<size_t>(beam);
    beam_.reserve(width);
    next_.reserve(width);
    candidates_.reserve(width * (width + 1));
    order_.reserve(width * (width + 1));
    best_.reserve(static_cast<size_t>(max_tokens));
    reset();
  }

  void reset() {
    prefixes_.clear();
    paths_.clear();
    beam_.clear();
    best_.clear();
    frames_ = 0;
    Entry root{.prefix = prefixes_.add({.in_beam = 0})};
    root.scores.blank = root.scores.best_blank = 0;
    beam_.push_back(root);
  }

  void step(const int32_t* ids, const float* log_probs, int k) {
    collect(ids, log_probs, k);
    prune();
    ++frames_;
  }

  void save(StateWriter& out) const {
    prefixes_.save(out);
    paths_.save(out);
    out.list(std::span(beam_));
    out.list(std::span(best_));
    out.value(frames_);
  }

  void load(StateReader& in) {
    prefixes_.load(in);
    paths_.load(in);
    in.list(beam_);
    in.list(best_);
    frames_ = in.value<int64_t>();
  }

  void write_best() { write_path(beam_.front().scores.path(), beam_.front().prefix, best_); }

  void write_path(int32_t path, int32_t prefix, std::vector<CtcToken>& out) const {
    out.resize(static_cast<size_t>(prefixes_[prefix].length));
    for (size_t i = out.size(); i-- > 0; path = paths_[path].parent) out[i] = paths_[path].token;
  }

  [[nodiscard]] std::span<const CtcToken> best() const { return best_; }
  [[nodiscard]] const std::vector<Entry>& beam() const { return beam_; }
  [[nodiscard]] int64_t frames() const { return frames_; }

 private:
  void collect(const int32_t* ids, const float* log_probs, int k) {
    candidates_.clear();
    // Candidate i is the i-th prefix itself; what extends a prefix to none of them comes after.
    for (size_t i = 0; i < beam_.size(); ++i) {
      candidates_.push_back({.prefix = beam_[i].prefix, .base = static_cast<int32_t>(i)});
    }
    for (int j = 0; j < std::min(k, beam_width_); ++j) {
      for (size_t i = 0; i < beam_.size(); ++i) extend(i, ids[j], log_probs[j]);
    }
  }

  void extend(size_t i, int32_t token, float log_prob) {
    const Scores& from = beam_[i].scores;
    const Prefix& prefix = prefixes_[beam_[i].prefix];
    const bool full = prefix.length == max_tokens_;
    const bool repeats = prefix.length > 0 && token == prefix.token;
    if (token == blank_id_ || (full && !repeats)) {
      stay(candidates_[i], from.total(), from.best(), from.path(), log_prob);
    } else if (!repeats) {
      add_token(longer_by(i, token), from.total(), from.best(), from.path(), Candidate::PathStep::append,
                token, log_prob);
    } else {
      add_token(candidates_[i], from.token, from.best_token, from.path_token, Candidate::PathStep::repeat,
                token, log_prob);
      if (full) {
        stay(candidates_[i], from.blank, from.best_blank, from.path_blank, log_prob);
      } else {
        add_token(longer_by(i, token), from.blank, from.best_blank, from.path_blank,
                  Candidate::PathStep::append, token, log_prob);
      }
    }
  }

  // The frame adds nothing to the prefix: it is blank, or the prefix is full and what comes is dropped.
  static void stay(Candidate& to, double sum, double best, int32_t path, float log_prob) {
    to.scores.blank = log_add(to.scores.blank, sum + log_prob);
    if (to.scores.best_blank < best + log_prob) {
      to.scores.best_blank = best + log_prob;
      to.scores.path_blank = path;
    }
  }

  static void add_token(Candidate& to, double sum, double best, int32_t path, Candidate::PathStep step,
                        int32_t token, float log_prob) {
    to.scores.token = log_add(to.scores.token, sum + log_prob);
    if (to.scores.best_token < best + log_prob) {
      to.scores.best_token = best + log_prob;
      to.scores.path_token = path;
      to.step = step;
      to.token = token;
      to.token_log_prob = log_prob;
    }
  }

  // The candidate of prefix i with one more token.
  Candidate& longer_by(size_t i, int32_t token) {
    int32_t child = prefixes_[beam_[i].prefix].first_child;
    while (child != none && prefixes_[child].token != token) child = prefixes_[child].next_sibling;
    if (child != none && prefixes_[child].in_beam != none) {
      return candidates_[static_cast<size_t>(prefixes_[child].in_beam)];
    }
    candidates_.push_back({.prefix = child, .base = static_cast<int32_t>(i), .token = token});
    return candidates_.back();
  }

  void prune() {
    order_.clear();
    for (size_t i = 0; i < candidates_.size(); ++i) {
      candidates_[i].rank = candidates_[i].scores.total();
      if (candidates_[i].rank > log_zero) order_.push_back(static_cast<int32_t>(i));
    }
    const size_t kept = std::min(order_.size(), static_cast<size_t>(beam_width_));
    std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(kept), order_.end(),
                      [this](int32_t a, int32_t b) {
                        const double ra = candidates_[static_cast<size_t>(a)].rank;
                        const double rb = candidates_[static_cast<size_t>(b)].rank;
                        return ra > rb || (ra == rb && a < b);
                      });
    next_.clear();
    for (size_t i = 0; i < kept; ++i) next_.push_back(realize(candidates_[static_cast<size_t>(order_[i])]));
    for (const Entry& entry : beam_) drop(entry);
    beam_.swap(next_);
    for (size_t i = 0; i < beam_.size(); ++i) prefixes_[beam_[i].prefix].in_beam = static_cast<int32_t>(i);
  }

  // Gives a kept candidate its trie node and its paths, with a reference to each.
  Entry realize(const Candidate& c) {
    Entry entry{.prefix = prefixes_.share(c.prefix), .scores = c.scores};
    if (entry.prefix == none) entry.prefix = add_child(beam_[static_cast<size_t>(c.base)].prefix, c.token);
    paths_.share(c.scores.path_blank);
    const auto frame = static_cast<int32_t>(frames_);
    if (c.step == Candidate::PathStep::append) {
      const CtcToken token{c.token, frame, frame, c.token_log_prob};
      entry.scores.path_token = paths_.add({.parent = paths_.share(c.scores.path_token), .token = token});
    } else if (c.step == Candidate::PathStep::repeat) {
      const AlignedToken& run = paths_[c.scores.path_token];
      CtcToken token = run.token;
      token.last_frame = frame;
      token.log_prob = std::max(token.log_prob, c.token_log_prob);
      entry.scores.path_token = paths_.add({.parent = paths_.share(run.parent), .token = token});
    }
    return entry;
  }

  int32_t add_child(int32_t parent, int32_t token) {
    const int32_t child = prefixes_.add({.parent = prefixes_.share(parent),
                                         .token = token,
                                         .length = prefixes_[parent].length + 1,
                                         .next_sibling = prefixes_[parent].first_child});
    prefixes_[parent].first_child = child;
    return child;
  }

  void drop(const Entry& entry) {
    paths_.drop(entry.scores.path_blank);
    paths_.drop(entry.scores.path_token);
    prefixes_[entry.prefix].in_beam = none;
    prefixes_.drop(entry.prefix, [this](int32_t gone) {
      const int32_t parent = prefixes_[gone].parent;
      if (parent == none) return;
      int32_t* link = &prefixes_[parent].first_child;
      while (*link != gone) link = &prefixes_[*link].next_sibling;
      *link = prefixes_[gone].next_sibling;
    });
  }

  int blank_id_;
  int beam_width_;
  int max_tokens_;
  CountedPool<Prefix> prefixes_;
  CountedPool<AlignedToken> paths_;
  std::vector<Entry> beam_;  // best first
  std::vector<Entry> next_;
  std::vector<Candidate> candidates_;
  std::vector<int32_t> order_;
  std::vector<CtcToken> best_;
  int64_t frames_ = 0;
};

const BeamState& beam_state(const CtcState& state) { return static_cast<const BeamState&>(state); }

}  // namespace

CtcPrefixBeamDecoder::CtcPrefixBeamDecoder(int blank_id, int beam, int max_tokens)
    : blank_id_(blank_id), beam_(beam), max_tokens_(max_tokens) {}

std::unique_ptr<CtcState> CtcPrefixBeamDecoder::create_state() const {
  return std::make_unique<BeamState>(blank_id_, beam_, max_tokens_);
}

void CtcPrefixBeamDecoder::reset_state(CtcState& state) const { static_cast<BeamState&>(state).reset(); }

void CtcPrefixBeamDecoder::decode_chunk(CtcState& state, const CtcFrames& frames) const {
  auto& beam = static_cast<BeamState&>(state);
  for (int i = 0; i < frames.frames; ++i) {
    const auto row = static_cast<ptrdiff_t>(i) * frames.k;
    beam.step(frames.ids + row, frames.log_probs + row, frames.k);
  }
  beam.write_best();
}

std::span<const CtcToken> CtcPrefixBeamDecoder::best(const CtcState& state) const {
  return beam_state(state).best();
}

int64_t CtcPrefixBeamDecoder::frames(const CtcState& state) const { return beam_state(state).frames(); }

std::span<const CtcToken> CtcPrefixBeamDecoder::finalize_stream(CtcState& state) const { return best(state); }

std::vector<std::byte> CtcPrefixBeamDecoder::save_state(const CtcState& state) const {
  StateWriter out;
  beam_state(state).save(out);
  return out.take();
}

void CtcPrefixBeamDecoder::load_state(CtcState& state, std::span<const std::byte> bytes) const {
  StateReader in(bytes);
  static_cast<BeamState&>(state).load(in);
}

size_t CtcPrefixBeamDecoder::write_nbest(const CtcState& state,
                                         std::vector<CtcHypothesis>& hypotheses) const {
  const BeamState& beam = beam_state(state);
  const size_t count = beam.beam().size();
  if (hypotheses.size() < count) hypotheses.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const Entry& entry = beam.beam()[i];
    hypotheses[i].score = entry.scores.total();
    beam.write_path(entry.scores.path(), entry.prefix, hypotheses[i].tokens);
  }
  return count;
}

}  // namespace tutti
