#pragma once

#include "gpu/ctc_state.hpp"
#include "gpu/host_device.hpp"

namespace tutti {

/// Best token per frame, repeats merged, blanks dropped, over one state.
class GreedySearch {
 public:
  struct Head {
    int32_t used[CtcStateLayout::most_lists];  ///< tokens; the others 0
    int32_t last_id;                           ///< of the previous frame, blank included
    int64_t frames;
    double score;     ///< of the one alignment
    int64_t dropped;  ///< whether the run in progress found the hypothesis full
  };

  [[nodiscard]] static constexpr CtcStateLayout layout(const CtcSearchSpec& spec) {
    CtcStateLayout layout{.head_bytes = sizeof(Head), .lists = {}, .bytes = sizeof(Head)};
    layout.add(0, sizeof(CtcToken), spec.max_tokens);
    return layout;
  }

  TUTTI_HOST_DEVICE GreedySearch(const CtcSearchSpec& spec, const CtcStateLayout& layout, std::byte* state)
      : spec_(spec),
        head_(*reinterpret_cast<Head*>(state)),
        tokens_(reinterpret_cast<CtcToken*>(state + layout.lists[0].begin)) {}

  TUTTI_HOST_DEVICE void reset() {
    head_ = {.used = {0, 0, 0}, .last_id = spec_.blank_id, .frames = 0, .score = 0, .dropped = 0};
  }

  TUTTI_HOST_DEVICE void step(int32_t id, float log_prob) {
    const auto frame = static_cast<int32_t>(head_.frames++);
    head_.score += log_prob;
    const bool continues = id == head_.last_id;
    head_.last_id = id;
    if (id == spec_.blank_id) return;
    if (!continues) {
      head_.dropped = head_.used[0] == spec_.max_tokens ? 1 : 0;
      if (head_.dropped == 0) tokens_[head_.used[0]++] = {id, frame, frame, log_prob};
    } else if (head_.dropped == 0) {
      CtcToken& run = tokens_[head_.used[0] - 1];
      run.last_frame = frame;
      run.log_prob = run.log_prob < log_prob ? log_prob : run.log_prob;
    }
  }

  [[nodiscard]] TUTTI_HOST_DEVICE const Head& head() const { return head_; }
  [[nodiscard]] TUTTI_HOST_DEVICE const CtcToken* tokens() const { return tokens_; }

 private:
  CtcSearchSpec spec_;
  Head& head_;
  CtcToken* tokens_;
};

}  // namespace tutti
