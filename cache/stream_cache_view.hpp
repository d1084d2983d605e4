#pragma once

#include <span>

#include "cache/attention_cache.hpp"
#include "cache/cnn_cache.hpp"
#include "cache/ctc_state.hpp"

namespace tutti {

/// One stream's three caches behind a single stream id and slot: the per-chunk facade of the reference's
/// StreamContext. Reachable only inside Engine.
class StreamCacheView {
 public:
  StreamCacheView(StreamId id, int slot, AttentionCacheManager& attention, CnnCacheManager& cnn,
                  CtcStateCacheManager& ctc)
      : id_(id), slot_(slot), attention_(&attention), cnn_(&cnn), ctc_(&ctc) {}

  /// Allocates in all three, or in none. Throws what the manager that refused throws.
  void allocate();
  void prepare_chunk(int frames) { attention_->prepare_chunk(id_, frames); }
  /// Counts the frames; the convolution cache was updated in place by the forward pass.
  void commit_chunk_paged(int frames) { attention_->commit_chunk_paged(id_, frames); }
  /// Valid until the next commit.
  [[nodiscard]] AttentionCacheManager::PagedStateViews get_paged_state_views() const {
    return attention_->get_paged_state_views(id_);
  }
  // The dense form of a chunk: what is cached, and what the model made of the chunk.
  [[nodiscard]] Tensor get_att_cache() const { return attention_->get_stacked_cache(id_); }
  void commit_chunk(const TensorView& packed) { attention_->commit(id_, packed); }
  [[nodiscard]] int cached_frames() const { return attention_->cached_frames(id_); }
  [[nodiscard]] StreamHandle get_decoder() const { return ctc_->get_decoder(id_); }
  [[nodiscard]] bool at_capacity() const { return attention_->at_capacity(id_); }
  /// Zero history and context, empty hypothesis.
  void reset();
  /// Gives everything back. Throws UnknownStream when it is not allocated.
  void free();

  [[nodiscard]] StreamId id() const { return id_; }
  [[nodiscard]] int slot() const { return slot_; }

 private:
  StreamId id_;
  int slot_;
  AttentionCacheManager* attention_;
  CnnCacheManager* cnn_;
  CtcStateCacheManager* ctc_;
};

}  // namespace tutti
