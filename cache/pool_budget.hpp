#pragma once

#include <cstdint>
#include <string>

#include "config/cache_config.hpp"

namespace tutti {

/// Memory that the K/V pools on a machine, or on one GPU, may take; in bytes.
struct MemoryBudget {
  std::string source =
      "free memory";        ///< what `available` is, in messages: "free memory" or the option that says it
  int64_t available = 0;    ///< on a GPU its free memory
  double utilization = 1;   ///< the share of it to take
  int64_t resident = 0;     ///< of that share, what the program holds, or will, and `available` still counts
  int64_t activations = 0;  ///< of an owner's part, what it needs besides its pool, as measured
  int owners = 1;           ///< who divide it evenly
  // What is kept of each stream so that it can move, in memory of the same kind; 0 where there is none.
  int64_t block_copy = 0;   ///< for each block of its history
  int64_t stream_copy = 0;  ///< beside them

  /// (available * utilization - resident) / owners - activations: one owner's; negative when there is none.
  [[nodiscard]] int64_t pool_bytes() const;
  /// What `available` would have to be for pools of so many bytes each.
  [[nodiscard]] int64_t available_for(int64_t bytes) const;
};

/// Memory that a model's weights take, in bytes.
struct WeightNeeds {
  int64_t kept = 0;     ///< as they are computed with
  int64_t loading = 0;  ///< besides, until they have been loaded
};

/// Throws SetupError when the budget does not hold the weights; the message says what would do.
void require_room(const WeightNeeds& weights, const MemoryBudget& budget);

/// The pool of each owner.
struct PoolPlan {
  int num_blocks = 0;
  int64_t bytes = 0;       ///< of all owners, with their activations and copies
  std::string arithmetic;  ///< how it came about, one line for the log
};

/// Sizes the pools, and what is kept of their streams beside them, for `config`, whose blocks take
/// `block_bytes` each (bytes_per_kv_block). An explicit max_num_blocks is kept. Without one, streams with a
/// window get what they need and no more, and streams with unlimited history all that the budget allows, up
/// to what their block tables can address. Throws std::invalid_argument for a config that does not validate,
/// SetupError when the budget does not hold the pool; the message says what to raise or lower, and to what.
[[nodiscard]] PoolPlan plan_pool(const CacheConfig& config, int64_t block_bytes, const MemoryBudget& budget);

}  // namespace tutti
