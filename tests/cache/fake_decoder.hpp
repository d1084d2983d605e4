#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "decode/ctc_decoder.hpp"

namespace tutti {

/// Appends the best token of every frame, and counts the states it made. The counts outlive it.
class FakeDecoder final : public CtcDecoder {
 public:
  struct Counts {
    int created = 0;
    int destroyed = 0;
    int resets = 0;
    std::vector<CtcLane> begun;  // the last batch
  };
  explicit FakeDecoder(Counts& counts) : counts_(&counts) {}

  int top_k() const override { return 1; }
  std::unique_ptr<CtcState> create_state() const override {
    ++counts_->created;
    auto state = std::make_unique<State>(*counts_);
    state->tokens.reserve(max_tokens);
    return state;
  }
  void reset_state(CtcState& state) const override {
    ++counts_->resets;
    tokens(state).clear();
  }
  CtcRows begin_chunks(std::span<const CtcLane> lanes, const CtcRows& rows) const override {
    counts_->begun.assign(lanes.begin(), lanes.end());
    return rows;
  }
  void decode_chunk(CtcState& state, const CtcFrames& frames) const override {
    for (int i = 0; i < frames.frames; ++i) {
      tokens(state).push_back({.id = frames.ids[i * frames.k], .first_frame = i, .last_frame = i});
    }
  }
  std::span<const CtcToken> best(const CtcState& state) const override {
    return static_cast<const State&>(state).tokens;
  }
  size_t write_nbest(const CtcState& state, std::vector<CtcHypothesis>& hypotheses) const override {
    hypotheses.resize(1);
    hypotheses[0].tokens.assign(best(state).begin(), best(state).end());
    return 1;
  }
  int64_t frames(const CtcState& state) const override { return std::ssize(best(state)); }
  std::span<const CtcToken> finalize_stream(CtcState& state) const override { return best(state); }
  std::vector<std::byte> save_state(const CtcState& state) const override {
    const auto bytes = std::as_bytes(best(state));
    return {bytes.begin(), bytes.end()};
  }
  void load_state(CtcState& state, std::span<const std::byte> bytes) const override {
    tokens(state).resize(bytes.size() / sizeof(CtcToken));
    std::ranges::copy(bytes, std::as_writable_bytes(std::span(tokens(state))).data());
  }

 private:
  static constexpr size_t max_tokens = 64;
  struct State final : CtcState {
    explicit State(Counts& c) : counts(&c) {}
    ~State() override { ++counts->destroyed; }
    Counts* counts;
    std::vector<CtcToken> tokens;
  };
  static std::vector<CtcToken>& tokens(CtcState& state) { return static_cast<State&>(state).tokens; }

  Counts* counts_;
};

/// One frame's row with one candidate.
struct OneFrame {
  int32_t id;
  float log_prob = 0;
  [[nodiscard]] CtcFrames frames() const { return {.frames = 1, .k = 1, .ids = &id, .log_probs = &log_prob}; }
};

}  // namespace tutti
