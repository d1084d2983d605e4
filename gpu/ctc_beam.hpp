#pragma once

#include <cmath>
#include <limits>

#include "gpu/counted_nodes.hpp"
#include "gpu/ctc_state.hpp"
#include "gpu/host_device.hpp"

namespace tutti {

/// The steps of CTC prefix beam search (Hannun et al. 2014, as WeNet's search.py has it) over one state: in
/// each frame the `beam` best tokens extend the `beam` best prefixes; a prefix keeps the summed
/// log-probability of its alignments that end in blank and of those that do not, in double. A token's frames
/// are those of the prefix's single best (Viterbi) alignment.
///
/// A frame is: each `candidate` by itself; `keep` those with the largest totals, the largest first, of equal
/// ones the first; `replace` the beam by them. Candidates may be computed side by side, and more than once;
/// the rest is for one thread.
///
/// A frame offers at most `beam` different tokens, with log-probabilities that are finite.
class BeamSearch {
 public:
  static constexpr double log_zero = -std::numeric_limits<double>::infinity();

  /// The two ways a prefix's alignments can end, blank and not, with the best alignment of each.
  struct Scores {
    double blank;  // summed over alignments
    double token;
    double best_blank;  // of the best alignment
    double best_token;
    int32_t path_blank;  // into the alignments
    int32_t path_token;

    [[nodiscard]] TUTTI_HOST_DEVICE double total() const { return log_add(blank, token); }
    [[nodiscard]] TUTTI_HOST_DEVICE double best() const {
      return best_blank < best_token ? best_token : best_blank;
    }
    [[nodiscard]] TUTTI_HOST_DEVICE int32_t path() const {
      return best_blank > best_token ? path_blank : path_token;
    }
  };

  /// A prefix of the beam, which holds references to what it names.
  struct Entry {
    Scores scores;
    double total;  // of the scores
    int32_t prefix;
    int32_t length;
  };

  /// A prefix of the next beam, before pruning. Paths are described rather than built: most candidates are
  /// pruned.
  struct Candidate {
    enum class PathStep : int32_t { keep, repeat, append };
    Scores scores;
    int32_t base;    // index in the current beam
    int32_t prefix;  // none: that of `base`, and `token` behind it
    int32_t length;
    int32_t token;  // that the path ends with
    float token_log_prob;
    PathStep step;  // how path_token becomes the path
  };

  [[nodiscard]] static constexpr CtcStateLayout layout(const CtcSearchSpec& spec) {
    CtcStateLayout layout{.head_bytes = sizeof(Head), .lists = {}, .bytes = sizeof(Head)};
    layout.add(0, sizeof(Entry), spec.beam);
    // While a frame is worked on, the old and the new beam exist side by side, each prefix with two paths.
    const int64_t tokens = int64_t{spec.max_tokens} + 1;
    layout.add(1, sizeof(Prefix), 2 * spec.beam * tokens + 1);
    layout.add(2, sizeof(AlignedToken), 4 * spec.beam * tokens);
    layout.bytes += spec.beam * int64_t{sizeof(Entry)};
    return layout;
  }

  TUTTI_HOST_DEVICE BeamSearch(const CtcSearchSpec& spec, const CtcStateLayout& layout, std::byte* state)
      : spec_(spec),
        head_(*reinterpret_cast<Head*>(state)),
        beam_(reinterpret_cast<Entry*>(state + layout.lists[0].begin)),
        next_(reinterpret_cast<Entry*>(state + layout.bytes) - spec.beam),
        prefixes_(reinterpret_cast<Prefix*>(state + layout.lists[1].begin), layout.lists[1].capacity,
                  head_.used[1], head_.free_prefix),
        paths_(reinterpret_cast<AlignedToken*>(state + layout.lists[2].begin), layout.lists[2].capacity,
               head_.used[2], head_.free_path) {}

  TUTTI_HOST_DEVICE void reset() {
    prefixes_.clear();
    paths_.clear();
    head_.padding = 0;
    head_.frames = 0;
    head_.used[0] = 1;
    beam_[0] = {.scores = no_alignment(), .total = 0, .prefix = add_prefix(none, none), .length = 0};
    beam_[0].scores.blank = beam_[0].scores.best_blank = 0;
    prefixes_[beam_[0].prefix].in_beam = 0;
  }

  [[nodiscard]] TUTTI_HOST_DEVICE int64_t frames() const { return head_.frames; }
  /// Of the state's lists; the first is the beam.
  [[nodiscard]] TUTTI_HOST_DEVICE const int32_t* used() const { return head_.used; }
  [[nodiscard]] TUTTI_HOST_DEVICE int entries() const { return head_.used[0]; }
  /// Best first.
  [[nodiscard]] TUTTI_HOST_DEVICE const Entry& entry(int i) const { return beam_[i]; }
  /// The entry's tokens, `length` of them, by its best alignment.
  TUTTI_HOST_DEVICE void write_tokens(const Entry& entry, CtcToken* tokens) const {
    int32_t path = entry.scores.path();
    for (int i = entry.length; i-- > 0; path = paths_[path].parent) tokens[i] = paths_[path].token;
  }

  /// Of a frame with k tokens. The first are the prefixes of the beam themselves.
  [[nodiscard]] TUTTI_HOST_DEVICE int candidates(int k) const { return entries() * (1 + k); }
  /// One of them; its total is log_zero where it is another one, or none.
  [[nodiscard]] TUTTI_HOST_DEVICE Candidate candidate(int index, const int32_t* ids, const float* log_probs,
                                                      int k) const {
    const int i = index % entries();
    const int j = index / entries() - 1;
    return j < 0 ? staying(i, ids, log_probs, k) : growing(i, ids[j], log_probs[j]);
  }

  /// Makes a candidate entry `place` of the next beam.
  TUTTI_HOST_DEVICE void keep(int place, const Candidate& c) {
    Entry& kept = next_[place];
    kept = {.scores = c.scores,
            .total = c.scores.total(),
            .prefix = prefixes_.share(c.prefix),
            .length = c.length};
    if (kept.prefix == none) kept.prefix = add_child(beam_[c.base].prefix, c.token);
    paths_.share(c.scores.path_blank);
    const auto frame = static_cast<int32_t>(head_.frames);
    if (c.step == Candidate::PathStep::append) {
      kept.scores.path_token =
          add_path(paths_.share(c.scores.path_token), {c.token, frame, frame, c.token_log_prob});
    } else if (c.step == Candidate::PathStep::repeat) {
      const AlignedToken& run = paths_[c.scores.path_token];
      const float log_prob = run.token.log_prob < c.token_log_prob ? c.token_log_prob : run.token.log_prob;
      kept.scores.path_token =
          add_path(paths_.share(run.parent), {run.token.id, run.token.first_frame, frame, log_prob});
    }
  }

  /// The next beam, of so many entries, becomes the beam, and the next frame begins.
  TUTTI_HOST_DEVICE void replace(int entries) {
    for (int i = 0; i < head_.used[0]; ++i) drop(beam_[i]);
    for (int i = 0; i < entries; ++i) {
      beam_[i] = next_[i];
      prefixes_[beam_[i].prefix].in_beam = i;
    }
    head_.used[0] = entries;
    ++head_.frames;
  }

 private:
  static constexpr int32_t none = -1;

  struct Head {
    int32_t used[CtcStateLayout::most_lists];
    int32_t free_prefix;
    int32_t free_path;
    int32_t padding;
    int64_t frames;
  };

  /// A prefix, as a node of the trie of all prefixes the beam stems from. Living children are listed, so that
  /// a prefix that left the beam and comes back is known to be the parent of those that stayed.
  struct Prefix {
    int32_t parent;
    int32_t references;
    int32_t token;  // its last; none for the empty prefix
    int32_t first_child;
    int32_t next_sibling;
    int32_t in_beam;  // index in the current beam
  };

  /// One token of one alignment; the alignment is the chain of parents.
  struct AlignedToken {
    int32_t parent;
    int32_t references;
    CtcToken token;
  };

  TUTTI_HOST_DEVICE static double log_add(double a, double b) {
    if (a < b) {
      const double larger = b;
      b = a;
      a = larger;
    }
    return b == log_zero ? a : a + std::log1p(std::exp(b - a));
  }

  TUTTI_HOST_DEVICE static Scores no_alignment() {
    return {log_zero, log_zero, log_zero, log_zero, none, none};
  }

  /// The prefix of entry i by all its alignments with the frame.
  [[nodiscard]] TUTTI_HOST_DEVICE Candidate staying(int i, const int32_t* ids, const float* log_probs,
                                                    int k) const {
    const Entry& own = beam_[i];
    const Prefix& prefix = prefixes_[own.prefix];
    const bool full = own.length == spec_.max_tokens;
    const int parent = prefix.parent == none ? none : prefixes_[prefix.parent].in_beam;
    Candidate to{.scores = no_alignment(),
                 .base = i,
                 .prefix = own.prefix,
                 .length = own.length,
                 .token = none,
                 .token_log_prob = 0,
                 .step = Candidate::PathStep::keep};
    for (int j = 0; j < k; ++j) {
      const float log_prob = log_probs[j];
      const bool repeats = ids[j] == prefix.token;
      // Of alignments that are equally good the one that stems from the better entry counts.
      if (repeats && parent != none && parent < i) append(to, parent, ids[j], log_prob);
      if (repeats) repeat(to, own.scores, ids[j], log_prob);
      if (ids[j] == spec_.blank_id || (full && !repeats)) {
        stay(to, own.total, own.scores.best(), own.scores.path(), log_prob);
      } else if (full) {
        stay(to, own.scores.blank, own.scores.best_blank, own.scores.path_blank, log_prob);
      }
      if (repeats && parent > i) append(to, parent, ids[j], log_prob);
    }
    return to;
  }

  /// The prefix of entry i with one more token.
  [[nodiscard]] TUTTI_HOST_DEVICE Candidate growing(int i, int32_t token, float log_prob) const {
    const Entry& from = beam_[i];
    Candidate to{.scores = no_alignment(),
                 .base = i,
                 .prefix = none,
                 .length = from.length + 1,
                 .token = token,
                 .token_log_prob = log_prob,
                 .step = Candidate::PathStep::append};
    if (token == spec_.blank_id || from.length == spec_.max_tokens) return to;
    int32_t child = prefixes_[from.prefix].first_child;
    while (child != none && prefixes_[child].token != token) child = prefixes_[child].next_sibling;
    if (child != none && prefixes_[child].in_beam != none) return to;  // which stays
    to.prefix = child;
    append(to, i, token, log_prob);
    return to;
  }

  // The frame adds nothing to the prefix: it is blank, or the prefix is full and what comes is dropped.
  TUTTI_HOST_DEVICE static void stay(Candidate& to, double sum, double best, int32_t path, float log_prob) {
    to.scores.blank = log_add(to.scores.blank, sum + log_prob);
    if (to.scores.best_blank < best + log_prob) {
      to.scores.best_blank = best + log_prob;
      to.scores.path_blank = path;
    }
  }

  // The token of the prefix goes on.
  TUTTI_HOST_DEVICE static void repeat(Candidate& to, const Scores& from, int32_t token, float log_prob) {
    add_token(to, from.token, from.best_token, from.path_token, Candidate::PathStep::repeat, token, log_prob);
  }

  // The token follows the prefix of entry i: after a blank where that ends with it.
  TUTTI_HOST_DEVICE void append(Candidate& to, int i, int32_t token, float log_prob) const {
    const Scores& from = beam_[i].scores;
    if (prefixes_[beam_[i].prefix].token == token) {
      add_token(to, from.blank, from.best_blank, from.path_blank, Candidate::PathStep::append, token,
                log_prob);
    } else {
      add_token(to, beam_[i].total, from.best(), from.path(), Candidate::PathStep::append, token, log_prob);
    }
  }

  TUTTI_HOST_DEVICE static void add_token(Candidate& to, double sum, double best, int32_t path,
                                          Candidate::PathStep step, int32_t token, float log_prob) {
    to.scores.token = log_add(to.scores.token, sum + log_prob);
    if (to.scores.best_token < best + log_prob) {
      to.scores.best_token = best + log_prob;
      to.scores.path_token = path;
      to.step = step;
      to.token = token;
      to.token_log_prob = log_prob;
    }
  }

  TUTTI_HOST_DEVICE int32_t add_prefix(int32_t parent, int32_t token) {
    return prefixes_.add({.parent = parent,
                          .references = 0,
                          .token = token,
                          .first_child = none,
                          .next_sibling = none,
                          .in_beam = none});
  }

  TUTTI_HOST_DEVICE int32_t add_child(int32_t parent, int32_t token) {
    const int32_t child = add_prefix(prefixes_.share(parent), token);
    prefixes_[child].next_sibling = prefixes_[parent].first_child;
    prefixes_[parent].first_child = child;
    return child;
  }

  TUTTI_HOST_DEVICE int32_t add_path(int32_t parent, const CtcToken& token) {
    return paths_.add({.parent = parent, .references = 0, .token = token});
  }

  TUTTI_HOST_DEVICE void drop(const Entry& entry) {
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

  CtcSearchSpec spec_;
  Head& head_;
  Entry* beam_;
  Entry* next_;  // at the end of the state, never saved
  CountedNodes<Prefix> prefixes_;
  CountedNodes<AlignedToken> paths_;
};

}  // namespace tutti
