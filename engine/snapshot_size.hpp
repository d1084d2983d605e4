#pragma once

#include <cstdint>

#include "config/cache_config.hpp"
#include "config/engine_config.hpp"
#include "model/conformer.hpp"

namespace tutti {

/// What a StreamSnapshot takes, in bytes of host memory.
struct SnapshotSize {
  int64_t block = 0;   ///< for each block of the stream's history
  int64_t stream = 0;  ///< for the rest of it
};

/// For streams of an engine with `config`, whose caches have the geometry `cache`, validated. A stream whose
/// segment is as long as it may be takes so much; one of prefix beam search may take a little more.
[[nodiscard]] SnapshotSize snapshot_size(const CacheConfig& cache, const ConformerCtc& model,
                                         const EngineConfig& config);

}  // namespace tutti
