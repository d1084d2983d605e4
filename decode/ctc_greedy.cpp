#include "gpu/ctc_greedy.hpp"

#include "decode/ctc_decoder.hpp"
#include "decode/state_memory.hpp"

namespace tutti {

namespace {

struct GreedyState final : CtcState {
  GreedyState(const CtcSearchSpec& spec, const CtcStateLayout& layout)
      : memory(layout), search(spec, layout, memory.data()) {
    search.reset();
  }
  StateMemory memory;
  GreedySearch search;
};

GreedyState& greedy_state(CtcState& state) { return static_cast<GreedyState&>(state); }
const GreedyState& greedy_state(const CtcState& state) { return static_cast<const GreedyState&>(state); }

}  // namespace

CtcGreedyDecoder::CtcGreedyDecoder(int blank_id, int max_tokens)
    : spec_{.blank_id = blank_id, .beam = 0, .max_tokens = max_tokens}, layout_(ctc_state_layout(spec_)) {}

std::unique_ptr<CtcState> CtcGreedyDecoder::create_state() const {
  return std::make_unique<GreedyState>(spec_, layout_);
}

void CtcGreedyDecoder::reset_state(CtcState& state) const { greedy_state(state).search.reset(); }

void CtcGreedyDecoder::decode_chunk(CtcState& state, const CtcFrames& frames) const {
  for (int i = 0; i < frames.frames; ++i) {
    const ptrdiff_t best = static_cast<ptrdiff_t>(i) * frames.k;
    greedy_state(state).search.step(frames.ids[best], frames.log_probs[best]);
  }
}

std::span<const CtcToken> CtcGreedyDecoder::best(const CtcState& state) const {
  const GreedySearch& search = greedy_state(state).search;
  return {search.tokens(), static_cast<size_t>(search.head().used[0])};
}

size_t CtcGreedyDecoder::write_nbest(const CtcState& state, std::vector<CtcHypothesis>& hypotheses) const {
  if (hypotheses.empty()) hypotheses.emplace_back();
  const std::span<const CtcToken> tokens = best(state);
  hypotheses.front().tokens.assign(tokens.begin(), tokens.end());
  hypotheses.front().score = greedy_state(state).search.head().score;
  return 1;
}

int64_t CtcGreedyDecoder::frames(const CtcState& state) const {
  return greedy_state(state).search.head().frames;
}

std::span<const CtcToken> CtcGreedyDecoder::finalize_stream(CtcState& state) const { return best(state); }

std::vector<std::byte> CtcGreedyDecoder::save_state(const CtcState& state) const {
  return greedy_state(state).memory.save();
}

void CtcGreedyDecoder::load_state(CtcState& state, std::span<const std::byte> bytes) const {
  greedy_state(state).memory.load(bytes);
}

}  // namespace tutti
