#pragma once

#include <cstdint>
#include <span>

#include "cache/block_pool.hpp"

namespace tutti {

/// The dense form of a stream's cache, for reading and writing it in one piece: K and V packed along the last
/// axis, (layers, n_kv_head, frames, 2 * head_dim), in host memory and of the pool's type. Linear in layers
/// times frames; the paged form moves nothing.

/// The frames of `packed`. Throws std::invalid_argument, with both shapes, for one that is not of this form.
[[nodiscard]] int require_packed_chunk(const char* where, const BlockPool& pool, const TensorView& packed);

/// Copies every frame of `packed` to where it lies in `blocks`, the first at frame `first` of their sequence.
void scatter_kv_frames(const BlockPool& pool, std::span<const int32_t> blocks, int first,
                       const TensorView& packed);

/// The `frames` frames from frame `first` of the sequence of `blocks`.
[[nodiscard]] Tensor gather_kv_blocks(const BlockPool& pool, std::span<const int32_t> blocks, int first,
                                      int frames);

}  // namespace tutti
