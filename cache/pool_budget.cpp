#include "cache/pool_budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "config/result.hpp"

namespace tutti {
namespace {

constexpr double mebibyte = 1 << 20;

std::string mib(int64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / mebibyte); }

std::string each(int owners) { return owners == 1 ? "" : fmt::format(" for each of {} owners", owners); }

/// "free memory 20000.0 MiB x 0.90 - 512.0 MiB resident, / 2 owners, - 100.0 MiB of activations = 8644.0 MiB"
std::string arithmetic(const MemoryBudget& b) {
  return fmt::format("{} {} x {:.2f} - {} resident, / {} owner{}, - {} of activations = {}", b.source,
                     mib(b.available), b.utilization, mib(b.resident), b.owners, b.owners == 1 ? "" : "s",
                     mib(b.activations), mib(b.pool_bytes()));
}

std::string pool_size(int64_t blocks, int64_t block_bytes) {
  return fmt::format("{} blocks of {:.1f} KiB, {}", blocks, static_cast<double>(block_bytes) / 1024,
                     mib(blocks * block_bytes));
}

/// What a pool takes, with all that is kept of its streams.
int64_t bytes_with_copies(const CacheConfig& c, int64_t blocks, int64_t block_bytes, const MemoryBudget& b) {
  return blocks * (block_bytes + b.block_copy) + c.max_streams * b.stream_copy;
}

std::string copies(const CacheConfig& c, int64_t blocks, const MemoryBudget& b) {
  const int64_t bytes = bytes_with_copies(c, blocks, 0, b);
  return bytes == 0 ? "" : fmt::format(", and {} to move streams with", mib(bytes));
}

/// How many owners there may be for each to have a pool of so many bytes; 0 = not even one.
int owners_that_fit(const MemoryBudget& budget, int64_t bytes) {
  MemoryBudget fewer = budget;
  while (fewer.owners > 1) {
    --fewer.owners;
    if (fewer.pool_bytes() >= bytes) return fewer.owners;
  }
  return 0;
}

std::string counted(int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

[[noreturn]] void refuse(const CacheConfig& c, int64_t blocks, int64_t block_bytes,
                         const MemoryBudget& budget) {
  const int64_t bytes = bytes_with_copies(c, blocks, block_bytes, budget);
  const int64_t fit = std::max<int64_t>(0, budget.pool_bytes() / ((bytes + blocks - 1) / blocks));
  const int64_t streams_need = c.max_streams * c.min_blocks_per_stream();
  std::string ways = fmt::format("raise {} to {:.0f} MiB", budget.source,
                                 std::ceil(static_cast<double>(budget.available_for(bytes)) / mebibyte));
  if (fit >= streams_need) {
    ways += fmt::format(" or lower max_num_blocks to {}", fit);
  } else if (const std::string lower = c.ways_to_fit(fit); !lower.empty()) {
    ways += fmt::format(" or lower {}", lower);
  }
  if (const int fewer = owners_that_fit(budget, bytes); fewer > 0) {
    ways += fmt::format(" or lower owners to {}", fewer);
  }
  throw SetupError(fmt::format("the K/V pool does not fit: {} times {} need {}{}{}; {}; {}",
                               counted(c.max_streams, "stream"), counted(blocks / c.max_streams, "block"),
                               pool_size(blocks, block_bytes), copies(c, blocks, budget), each(budget.owners),
                               arithmetic(budget), ways));
}

}  // namespace

int64_t MemoryBudget::pool_bytes() const {
  const auto share = static_cast<int64_t>(static_cast<double>(available) * utilization);
  return (share - resident) / owners - activations;
}

int64_t MemoryBudget::available_for(int64_t bytes) const {
  const int64_t share = (bytes + activations) * owners + resident;
  return static_cast<int64_t>(std::ceil(static_cast<double>(share) / utilization));
}

void require_room(const WeightNeeds& weights, const MemoryBudget& budget) {
  const auto share = static_cast<int64_t>(static_cast<double>(budget.available) * budget.utilization);
  const int64_t needed = weights.kept + weights.loading;
  if (share - budget.resident >= needed) return;
  throw SetupError(
      fmt::format("the weights do not fit: they need {}, and {} more while they are loaded; {} {} x {:.2f} - "
                  "{} resident = {}; "
                  "raise {} to {:.0f} MiB, or take a smaller model or a narrower type of weights",
                  mib(weights.kept), mib(weights.loading), budget.source, mib(budget.available),
                  budget.utilization, mib(budget.resident), mib(share - budget.resident), budget.source,
                  std::ceil(static_cast<double>(needed + budget.resident) / budget.utilization / mebibyte)));
}

PoolPlan plan_pool(const CacheConfig& config, int64_t block_bytes, const MemoryBudget& budget) {
  const CacheConfig c = config.validated();
  int64_t blocks = c.max_num_blocks;
  if (config.max_num_blocks == 0 && !c.evicts()) {
    const int64_t share = budget.pool_bytes() / c.max_streams - budget.stream_copy;
    const int64_t a_stream = std::clamp<int64_t>(share / (block_bytes + budget.block_copy),
                                                 c.min_blocks_per_stream(), c.max_blocks_per_seq);
    blocks = a_stream * c.max_streams;
  }
  if (budget.pool_bytes() < bytes_with_copies(c, blocks, block_bytes, budget))
    refuse(c, blocks, block_bytes, budget);
  CacheConfig planned = c;
  planned.max_num_blocks = static_cast<int>(blocks);
  const std::string limit =
      c.evicts()
          ? ""
          : fmt::format(" (at most {} frames)", int64_t{planned.blocks_per_stream()} * c.block_size_frames);
  return {.num_blocks = planned.max_num_blocks,
          .bytes = (bytes_with_copies(c, blocks, block_bytes, budget) + budget.activations) * budget.owners,
          .arithmetic =
              fmt::format("{}{}{}: {} x {}{}; {}", pool_size(blocks, block_bytes), copies(c, blocks, budget),
                          each(budget.owners), counted(c.max_streams, "stream"),
                          counted(planned.blocks_per_stream(), "block"), limit, arithmetic(budget))};
}

}  // namespace tutti
