#include "cache/ctc_state.hpp"

#include <stdexcept>
#include <utility>

namespace tutti {

CtcStateCacheManager::CtcStateCacheManager(std::unique_ptr<const CtcDecoder> decoder, int states)
    : decoder_(std::move(decoder)), index_(states) {
  if (!decoder_) throw std::invalid_argument("CtcStateCacheManager: no decoder, expected one");
  states_.reserve(static_cast<size_t>(states));
  lanes_.reserve(static_cast<size_t>(states));
  for (int i = 0; i < states; ++i) states_.push_back(decoder_->create_state());
}

void CtcStateCacheManager::allocate_stream(StreamId id) {
  const int index = index_.insert("CtcStateCacheManager::allocate_stream", id);
  decoder_->reset_state(*states_[static_cast<size_t>(index)]);
}

void CtcStateCacheManager::free_stream(StreamId id) { index_.erase("CtcStateCacheManager::free_stream", id); }

StreamHandle CtcStateCacheManager::get_decoder(StreamId id) const {
  return {*decoder_, *states_[static_cast<size_t>(index_.at("CtcStateCacheManager::get_decoder", id))]};
}

CtcRows CtcStateCacheManager::begin_chunks(std::span<const StreamId> ids, const BatchLayout& layout,
                                           const CtcRows& rows) {
  lanes_.clear();
  for (size_t lane = 0; lane < ids.size(); ++lane) {
    const int index = index_.at("CtcStateCacheManager::begin_chunks", ids[lane]);
    lanes_.push_back({.state = states_[static_cast<size_t>(index)].get(),
                      .first_row = layout.row_begin[lane],
                      .frames = layout.rows(static_cast<int>(lane))});
  }
  return decoder_->begin_chunks(lanes_, rows);
}

}  // namespace tutti
