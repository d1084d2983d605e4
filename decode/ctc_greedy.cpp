#include <algorithm>
#include <cassert>

#include "decode/ctc_decoder.hpp"
#include "decode/state_bytes.hpp"

namespace tutti {

namespace {

struct GreedyState final : CtcState {
  std::vector<CtcToken> tokens;
  int64_t frames = 0;
  double score = 0;      // of the one alignment
  int32_t last_id = 0;   // of the previous frame, blank included
  bool dropped = false;  // the run in progress found the state full
};

}  // namespace

CtcGreedyDecoder::CtcGreedyDecoder(int blank_id, int max_tokens)
    : blank_id_(blank_id), max_tokens_(static_cast<size_t>(max_tokens)) {}

std::unique_ptr<CtcState> CtcGreedyDecoder::create_state() const {
  auto state = std::make_unique<GreedyState>();
  state->tokens.reserve(max_tokens_);
  reset_state(*state);
  return state;
}

void CtcGreedyDecoder::reset_state(CtcState& state) const {
  auto& s = static_cast<GreedyState&>(state);
  s.tokens.clear();
  s.frames = 0;
  s.score = 0;
  s.last_id = blank_id_;
  s.dropped = false;
}

void CtcGreedyDecoder::decode_chunk(CtcState& state, const CtcFrames& frames) const {
  auto& s = static_cast<GreedyState&>(state);
  for (int i = 0; i < frames.frames; ++i) {
    const int32_t id = frames.ids[static_cast<ptrdiff_t>(i) * frames.k];
    const float log_prob = frames.log_probs[static_cast<ptrdiff_t>(i) * frames.k];
    const auto frame = static_cast<int32_t>(s.frames++);
    s.score += log_prob;
    const bool continues = id == s.last_id;
    s.last_id = id;
    if (id == blank_id_) continue;
    if (!continues) {
      s.dropped = s.tokens.size() == max_tokens_;
      if (!s.dropped) s.tokens.push_back({id, frame, frame, log_prob});
    } else if (!s.dropped) {
      CtcToken& run = s.tokens.back();
      run.last_frame = frame;
      run.log_prob = std::max(run.log_prob, log_prob);
    }
  }
}

std::span<const CtcToken> CtcGreedyDecoder::best(const CtcState& state) const {
  return static_cast<const GreedyState&>(state).tokens;
}

size_t CtcGreedyDecoder::write_nbest(const CtcState& state, std::vector<CtcHypothesis>& hypotheses) const {
  if (hypotheses.empty()) hypotheses.emplace_back();
  const std::span<const CtcToken> tokens = best(state);
  hypotheses.front().tokens.assign(tokens.begin(), tokens.end());
  hypotheses.front().score = static_cast<const GreedyState&>(state).score;
  return 1;
}

int64_t CtcGreedyDecoder::frames(const CtcState& state) const {
  return static_cast<const GreedyState&>(state).frames;
}

std::span<const CtcToken> CtcGreedyDecoder::finalize_stream(CtcState& state) const { return best(state); }

std::vector<std::byte> CtcGreedyDecoder::save_state(const CtcState& state) const {
  const auto& s = static_cast<const GreedyState&>(state);
  StateWriter out;
  out.list(std::span(s.tokens));
  out.value(s.frames);
  out.value(s.score);
  out.value(s.last_id);
  out.value(s.dropped);
  return out.take();
}

void CtcGreedyDecoder::load_state(CtcState& state, std::span<const std::byte> bytes) const {
  auto& s = static_cast<GreedyState&>(state);
  StateReader in(bytes);
  in.list(s.tokens);
  s.frames = in.value<int64_t>();
  s.score = in.value<double>();
  s.last_id = in.value<int32_t>();
  s.dropped = in.value<bool>();
}

}  // namespace tutti
