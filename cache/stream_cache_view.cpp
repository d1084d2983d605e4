#include "cache/stream_cache_view.hpp"

namespace tutti {

void StreamCacheView::allocate() {
  attention_->allocate_stream(id_);
  try {
    cnn_->allocate_stream(slot_);
    try {
      ctc_->allocate_stream(id_);
    } catch (...) {
      cnn_->free_stream(slot_);
      throw;
    }
  } catch (...) {
    attention_->free_stream(id_);
    throw;
  }
}

void StreamCacheView::reset() {
  attention_->reset_stream(id_);
  cnn_->reset_stream(slot_);
  get_decoder().reset();
}

void StreamCacheView::free() {
  attention_->free_stream(id_);
  cnn_->free_stream(slot_);
  ctc_->free_stream(id_);
}

}  // namespace tutti
