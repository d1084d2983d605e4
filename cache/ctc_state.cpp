#include "cache/ctc_state.hpp"

#include <stdexcept>
#include <utility>

namespace tutti {

CtcStateCacheManager::CtcStateCacheManager(std::unique_ptr<const CtcDecoder> decoder, int states)
    : decoder_(std::move(decoder)), index_(states) {
  if (!decoder_) throw std::invalid_argument("CtcStateCacheManager: no decoder, expected one");
  states_.reserve(static_cast<size_t>(states));
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

}  // namespace tutti
