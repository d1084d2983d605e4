#include "cache/pool_budget.hpp"

#include <gmock/gmock.h>

#include <random>

#include "cache/block_pool.hpp"
#include "config/result.hpp"
#include "tests/cache/throws.hpp"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t mib = 1 << 20;
constexpr int64_t gib = 1 << 30;

/// 192 KiB a block: 12 layers, 4 heads of 64, blocks of 16 frames, 2 bytes an element.
constexpr int64_t block_bytes = 192 * 1024;

MemoryBudget machine(int64_t available, int owners = 1) { return {.available = available, .owners = owners}; }

CacheConfig unlimited(int max_streams = 32) {
  return {.num_left_chunks = -1, .max_blocks_per_seq = 512, .max_streams = max_streams};
}

TEST(MemoryBudget, OfAGpuIsItsFreeMemoryTimesUtilizationWithoutWhatIsResidentAndTheActivations) {
  const MemoryBudget gpu{.source = "free memory of cuda:0",
                         .available = 20 * gib,
                         .utilization = 0.9,
                         .resident = 2 * gib,
                         .activations = gib};
  EXPECT_EQ(gpu.pool_bytes(), 15 * gib);
}

TEST(MemoryBudget, OfAMachineIsDividedAmongItsOwnersEachOfWhomHasActivations) {
  const MemoryBudget cpu{.source = "engine.memory_budget_mib",
                         .available = 4000 * mib,
                         .resident = 400 * mib,
                         .activations = 100 * mib,
                         .owners = 4};
  EXPECT_EQ(cpu.pool_bytes(), 800 * mib);
}

TEST(MemoryBudget, IsNegativeWhenTheRestAlreadyTakesMore) {
  EXPECT_LT((MemoryBudget{.available = gib, .resident = gib, .activations = mib}.pool_bytes()), 0);
}

TEST(MemoryBudget, KnowsWhatWouldHaveToBeAvailable) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto up_to = [&](int64_t n) { return std::uniform_int_distribution<int64_t>(0, n)(random); };
  for (int i = 0; i < 200; ++i) {
    MemoryBudget budget{.utilization = 0.5 + static_cast<double>(up_to(50)) / 100,
                        .resident = up_to(gib),
                        .activations = up_to(gib),
                        .owners = 1 + static_cast<int>(up_to(31))};
    const int64_t bytes = up_to(100 * gib);
    const int64_t needed = budget.available_for(bytes);
    budget.available = needed + 4096;  // doubles are not exact to the byte
    EXPECT_GE(budget.pool_bytes(), bytes);
    budget.available = needed - 4096 - 2 * budget.owners;
    EXPECT_LE(budget.pool_bytes(), bytes);
  }
}

TEST(PoolPlan, WithAWindowIsWhatTheStreamsNeedHoweverMuchIsFree) {
  const PoolPlan plan = plan_pool({.num_left_chunks = 4, .max_streams = 32}, block_bytes, machine(64 * gib));
  EXPECT_EQ(plan.num_blocks, 32 * 6);
  EXPECT_EQ(plan_pool({.num_left_chunks = 4, .max_streams = 32}, block_bytes, machine(192 * block_bytes))
                .num_blocks,
            192);
}

TEST(PoolPlan, WithUnlimitedHistoryFillsTheBudgetEvenlyForAllStreams) {
  const PoolPlan plan = plan_pool(unlimited(), block_bytes, machine(384 * mib + 31 * block_bytes));
  EXPECT_EQ(plan.num_blocks, 2048) << "64 blocks a stream; 31 more are not one each";
}

TEST(PoolPlan, WithUnlimitedHistoryIsCappedAtWhatTheBlockTablesAddress) {
  const PoolPlan plan = plan_pool(unlimited(), block_bytes, machine(64 * gib));
  EXPECT_EQ(plan.num_blocks, 32 * 512);
  EXPECT_EQ(plan.num_blocks * block_bytes, 3 * gib);
}

TEST(PoolPlan, DividesOneMachineAmongItsOwners) {
  EXPECT_EQ(plan_pool(unlimited(), block_bytes, machine(768 * mib, 2)).num_blocks, 2048);
}

TEST(PoolPlan, KeepsAnExplicitPoolThatFits) {
  CacheConfig config = unlimited();
  config.max_num_blocks = 1000;
  EXPECT_EQ(plan_pool(config, block_bytes, machine(gib)).num_blocks, 1000);
}

TEST(PoolPlan, SaysHowItCameAbout) {
  const std::string line = plan_pool(unlimited(), block_bytes,
                                     {.source = "engine.memory_budget_mib",
                                      .available = 1000 * mib,
                                      .utilization = 1,
                                      .resident = 32 * mib,
                                      .activations = 100 * mib,
                                      .owners = 2})
                               .arithmetic;
  EXPECT_THAT(line, HasSubstr("engine.memory_budget_mib 1000.0 MiB x 1.00 - 32.0 MiB resident, / 2 owners, - "
                              "100.0 MiB of activations = 384.0 MiB"));
  EXPECT_THAT(line, HasSubstr("2048 blocks of 192.0 KiB, 384.0 MiB for each of 2 owners"));
  EXPECT_THAT(line, HasSubstr("32 streams x 64 blocks (at most 1024 frames)"));
}

TEST(PoolPlan, HasRoomForWhatIsKeptOfEachStream) {
  MemoryBudget budget = machine(36 * mib + 192 * mib + 32 * mib);
  budget.block_copy = mib;
  budget.stream_copy = mib;
  const CacheConfig config{.num_left_chunks = 4, .max_streams = 32};
  const PoolPlan plan = plan_pool(config, block_bytes, budget);
  EXPECT_EQ(plan.num_blocks, 192);
  EXPECT_THAT(plan.arithmetic,
              HasSubstr("192 blocks of 192.0 KiB, 36.0 MiB, and 224.0 MiB to move streams with:"));
  budget.available -= 1;
  expect_throws<SetupError>([&] { (void)plan_pool(config, block_bytes, budget); },
                            "36.0 MiB, and 224.0 MiB to move streams with;", "raise free memory to 260 MiB",
                            "lower max_streams to 31");
  budget.available = 32 * (10 * (block_bytes + mib) + mib) + 31 * mib;
  EXPECT_EQ(plan_pool(unlimited(), block_bytes, budget).num_blocks, 320);
}

TEST(PoolPlan, RefusesABudgetThatCannotHoldTheHistoriesAndSaysWhatToRaiseOrLower) {
  const CacheConfig config{.num_left_chunks = 4, .max_streams = 32};
  const MemoryBudget budget = machine(100 * block_bytes);
  expect_throws<SetupError>([&] { (void)plan_pool(config, block_bytes, budget); },
                            "32 streams times 6 blocks", "192 blocks", "36.0 MiB", "free memory 18.8 MiB",
                            "raise free memory to 36 MiB", "lower max_streams to 16 or num_left_chunks to 1");
  CacheConfig lower = config;
  lower.max_streams = 16;
  EXPECT_EQ(plan_pool(lower, block_bytes, budget).num_blocks, 96);
  lower = config;
  lower.num_left_chunks = 1;
  EXPECT_EQ(plan_pool(lower, block_bytes, budget).num_blocks, 96);
  EXPECT_EQ(plan_pool(config, block_bytes, machine(36 * mib)).num_blocks, 192);
}

TEST(PoolPlan, RefusesABudgetThatCannotHoldAChunkOfEveryStreamWithUnlimitedHistory) {
  expect_throws<SetupError>([] { (void)plan_pool(unlimited(), block_bytes, machine(31 * block_bytes)); },
                            "32 streams times 1 block need", "raise free memory to 6 MiB",
                            "lower max_streams to 31");
  expect_throws<SetupError>([] { (void)plan_pool(unlimited(), block_bytes, machine(0)); },
                            "raise free memory");
}

TEST(PoolPlan, RefusesAnExplicitPoolThatDoesNotFitAndSaysWhatWould) {
  CacheConfig config = unlimited();
  config.max_num_blocks = 2048;
  expect_throws<SetupError>([&] { (void)plan_pool(config, block_bytes, machine(100 * mib)); },
                            "raise free memory to 384 MiB", "lower max_num_blocks to 533");
  config.max_num_blocks = 533;
  EXPECT_EQ(plan_pool(config, block_bytes, machine(100 * mib)).num_blocks, 533);
}

TEST(PoolPlan, OffersFewerOwnersWhereWhatEachNeedsBesidesItsPoolIsTooMuch) {
  const CacheConfig config{.num_left_chunks = 4, .max_streams = 32};
  MemoryBudget budget{.available = 1000 * mib, .activations = 400 * mib, .owners = 4};
  expect_throws<SetupError>([&] { (void)plan_pool(config, block_bytes, budget); }, "or lower owners to 2");
  budget.owners = 2;
  EXPECT_EQ(plan_pool(config, block_bytes, budget).num_blocks, 192);
}

TEST(PoolPlan, RefusesAConfigThatDoesNotValidate) {
  EXPECT_THROW((void)plan_pool({.max_streams = 0}, block_bytes, machine(gib)), std::invalid_argument);
}

TEST(PoolPlan, CountsBlocksAsAPoolTakesThem) {
  EXPECT_EQ(bytes_per_kv_block(CacheConfig{}, DType::bf16), block_bytes);
}

TEST(PoolPlan, KnowsWhatItTakesOfMemoryInAll) {
  MemoryBudget budget = machine(8 * gib, 2);
  budget.activations = 10 * mib;
  budget.block_copy = 1000;
  budget.stream_copy = 77;
  const PoolPlan plan = plan_pool({.max_streams = 32}, block_bytes, budget);
  EXPECT_EQ(plan.bytes, 2 * (plan.num_blocks * (block_bytes + 1000) + 32 * 77 + 10 * mib));
}

TEST(WeightRoom, IsWhatTheBudgetLeavesBesideWhatIsResident) {
  const MemoryBudget budget{
      .source = "engine.memory_budget_mib", .available = 1000 * mib, .resident = 400 * mib};
  EXPECT_NO_THROW(require_room({.kept = 400 * mib, .loading = 200 * mib}, budget));
  EXPECT_THAT([&] { require_room({.kept = 400 * mib, .loading = 201 * mib}, budget); },
              testing::ThrowsMessage<SetupError>(AllOf(
                  HasSubstr("they need 400.0 MiB, and 201.0 MiB more while they are loaded"),
                  HasSubstr("engine.memory_budget_mib 1000.0 MiB x 1.00 - 400.0 MiB resident = 600.0 MiB"),
                  HasSubstr("raise engine.memory_budget_mib to 1001 MiB"))));
}

TEST(WeightRoom, LeavesToOthersWhatTheBudgetDoes) {
  const MemoryBudget budget{.available = 1000 * mib, .utilization = 0.9};
  EXPECT_NO_THROW(require_room({.kept = 900 * mib}, budget));
  EXPECT_THROW(require_room({.kept = 901 * mib}, budget), SetupError);
}

}  // namespace
}  // namespace tutti
