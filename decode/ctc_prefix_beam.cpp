#include "decode/ctc_prefix_beam.hpp"

#include <algorithm>

#include "decode/state_memory.hpp"
#include "gpu/ctc_beam.hpp"

namespace tutti {

namespace {

class BeamState final : public CtcState {
 public:
  BeamState(const CtcSearchSpec& spec, const CtcStateLayout& layout)
      : memory_(layout), search_(spec, layout, memory_.data()), width_(static_cast<size_t>(spec.beam)) {
    totals_.reserve(width_ * (width_ + 1));
    order_.reserve(width_ * (width_ + 1));
    best_.reserve(static_cast<size_t>(spec.max_tokens));
    reset();
  }

  void reset() {
    search_.reset();
    best_.clear();
  }

  void step(const int32_t* ids, const float* log_probs, int k) {
    const int candidates = search_.candidates(k);
    totals_.clear();
    order_.clear();
    for (int i = 0; i < candidates; ++i) {
      totals_.push_back(search_.candidate(i, ids, log_probs, k).scores.total());
      if (totals_.back() > BeamSearch::log_zero) order_.push_back(i);
    }
    const size_t kept = std::min(order_.size(), width_);
    std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(kept), order_.end(),
                      [this](int a, int b) {
                        const double total_a = totals_[static_cast<size_t>(a)];
                        const double total_b = totals_[static_cast<size_t>(b)];
                        return total_a > total_b || (total_a == total_b && a < b);
                      });
    for (size_t i = 0; i < kept; ++i) {
      search_.keep(static_cast<int>(i), search_.candidate(order_[i], ids, log_probs, k));
    }
    search_.replace(static_cast<int>(kept));
  }

  void write_best() { write(0, best_); }
  void write(int entry, std::vector<CtcToken>& tokens) const {
    tokens.resize(static_cast<size_t>(search_.entry(entry).length));
    search_.write_tokens(search_.entry(entry), tokens.data());
  }

  [[nodiscard]] std::vector<std::byte> save() const { return memory_.save(); }
  void load(std::span<const std::byte> bytes) {
    memory_.load(bytes);
    write_best();
  }

  [[nodiscard]] const BeamSearch& search() const { return search_; }
  [[nodiscard]] std::span<const CtcToken> best() const { return best_; }

 private:
  StateMemory memory_;
  BeamSearch search_;
  size_t width_;
  std::vector<double> totals_;  // of the candidates
  std::vector<int> order_;      // of those that there are
  std::vector<CtcToken> best_;
};

BeamState& beam_state(CtcState& state) { return static_cast<BeamState&>(state); }
const BeamState& beam_state(const CtcState& state) { return static_cast<const BeamState&>(state); }

}  // namespace

CtcPrefixBeamDecoder::CtcPrefixBeamDecoder(int blank_id, int beam, int max_tokens)
    : spec_{.blank_id = blank_id, .beam = beam, .max_tokens = max_tokens}, layout_(ctc_state_layout(spec_)) {}

std::unique_ptr<CtcState> CtcPrefixBeamDecoder::create_state() const {
  return std::make_unique<BeamState>(spec_, layout_);
}

void CtcPrefixBeamDecoder::reset_state(CtcState& state) const { beam_state(state).reset(); }

void CtcPrefixBeamDecoder::decode_chunk(CtcState& state, const CtcFrames& frames) const {
  BeamState& beam = beam_state(state);
  for (int i = 0; i < frames.frames; ++i) {
    const auto row = static_cast<ptrdiff_t>(i) * frames.k;
    beam.step(frames.ids + row, frames.log_probs + row, std::min(frames.k, spec_.beam));
  }
  beam.write_best();
}

std::span<const CtcToken> CtcPrefixBeamDecoder::best(const CtcState& state) const {
  return beam_state(state).best();
}

int64_t CtcPrefixBeamDecoder::frames(const CtcState& state) const {
  return beam_state(state).search().frames();
}

std::span<const CtcToken> CtcPrefixBeamDecoder::finalize_stream(CtcState& state) const { return best(state); }

std::vector<std::byte> CtcPrefixBeamDecoder::save_state(const CtcState& state) const {
  return beam_state(state).save();
}

void CtcPrefixBeamDecoder::load_state(CtcState& state, std::span<const std::byte> bytes) const {
  beam_state(state).load(bytes);
}

size_t CtcPrefixBeamDecoder::write_nbest(const CtcState& state,
                                         std::vector<CtcHypothesis>& hypotheses) const {
  const BeamState& beam = beam_state(state);
  const auto count = static_cast<size_t>(beam.search().entries());
  if (hypotheses.size() < count) hypotheses.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const auto entry = static_cast<int>(i);
    hypotheses[i].score = beam.search().entry(entry).total;
    beam.write(entry, hypotheses[i].tokens);
  }
  return count;
}

}  // namespace tutti
