#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cache/decoder_kv.hpp"
#include "cache/dense_decoder_kv.hpp"
#include "tests/cache/decoder_kv_tokens.hpp"
#include "tests/cache/host_ops.hpp"

namespace tutti {
namespace {

constexpr int operations = 8000;
constexpr int num_layers = 2;

uint64_t seed() {
  if (const char* given = std::getenv("TUTTI_TEST_SEED")) return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int roll(int min, int max) { return std::uniform_int_distribution<int>(min, max)(engine_); }

 private:
  std::mt19937_64 engine_;
};

DecoderKvConfig config_for(int page_tokens, DType format) {
  return {.num_layers = num_layers,
          .n_kv_head = 1,
          .head_dim = 3,
          .page_tokens = page_tokens,
          .max_rows = 9,
          .max_row_tokens = 20,
          .num_pages = 60 / page_tokens + 6,
          .format = format};
}

/// Drives a DecoderKvCacheManager with random operations, side by side with a model in which a row is a plain
/// list of tokens, read and written through the addresses of fill_batch as a kernel would.
class PagedModel {
 public:
  PagedModel(int page_tokens, DType format, uint64_t used_seed)
      : dice_(used_seed),
        cache_(config_for(page_tokens, format), ops_),
        batch_(cache_.pool(), cache_.config().max_rows, cache_.table_width()) {}

  void step() {
    const int roll = dice_.roll(1, 100);
    if (roll <= 25 || rows_.empty()) {
      admit();
    } else if (roll <= 85) {
      decode();
    } else if (roll <= 95) {
      free_one();
    } else {
      refuse();
    }
    check();
  }

  int refused_admissions = 0;
  int full_rows = 0;

 private:
  struct Row {
    int ceiling = 0;
    int prefill = 0;
    std::vector<int> tokens;
  };

  [[nodiscard]] int pages(int tokens) const { return cache_.config().pages_for(tokens); }

  /// The rows of one utterance, the first of them for cross-attention: all or none.
  void admit() {
    std::vector<int> ceilings;
    int needed = 0;
    for (int i = dice_.roll(1, 4); i > 0; --i) ceilings.push_back(dice_.roll(1, 20));
    for (const int ceiling : ceilings) needed += pages(ceiling);
    for (const auto& [id, row] : rows_) needed += pages(row.ceiling);
    const bool room = needed <= cache_.config().num_pages &&
                      rows_.size() + ceilings.size() <= static_cast<size_t>(cache_.config().max_rows);
    ASSERT_EQ(cache_.can_admit(ceilings), room);
    if (!room) {
      ++refused_admissions;
      return;
    }
    for (size_t i = 0; i < ceilings.size(); ++i) {
      const int prefill = i == 0 ? ceilings[i] : dice_.roll(0, ceilings[i]);
      cache_.allocate_row(next_id_, ceilings[i], prefill);
      rows_[next_id_++] = {ceilings[i], prefill, {}};
    }
  }

  void decode() {
    std::vector<StreamId> ids;
    std::vector<StreamId> growing;
    std::vector<int> counts;
    std::vector<int> grown;
    for (auto& [id, row] : rows_) {
      const int room = row.ceiling - static_cast<int>(row.tokens.size());
      if (room == 0) ++full_rows;
      if (room == 0 || dice_.roll(0, 2) == 0) continue;
      ids.push_back(id);
      counts.push_back(row.prefill);
      if (row.prefill > 0) continue;
      counts.back() = std::min(room, dice_.roll(1, 3));
      growing.push_back(id);
      grown.push_back(counts.back());
    }
    cache_.prepare_step(growing, grown);
    cache_.fill_batch(ids, batch_);
    for (size_t lane = 0; lane < ids.size(); ++lane) {
      Row& row = rows_[ids[lane]];
      const int held = static_cast<int>(row.tokens.size());
      expect_tokens(batch_, num_layers, static_cast<int>(lane), row.tokens);
      const int kept = dice_.roll(0, 5) == 0 ? dice_.roll(0, counts[lane]) : counts[lane];
      for (int i = 0; i < counts[lane]; ++i) {
        write_token(batch_, num_layers, static_cast<int>(lane), held + i, next_token_);
        if (i < kept) row.tokens.push_back(next_token_);
        ++next_token_;
      }
      row.prefill = 0;
      cache_.commit_step(ids[lane], kept);
    }
  }

  void free_one() {
    const StreamId id = any();
    cache_.free_row(id);
    rows_.erase(id);
  }

  void refuse() {
    const StreamId id = any();
    const int beyond = rows_[id].ceiling - static_cast<int>(rows_[id].tokens.size()) + 1;
    EXPECT_THROW(cache_.prepare_step(std::span(&id, 1), std::span(&beyond, 1)), std::logic_error);
    EXPECT_THROW(cache_.allocate_row(id, 1), std::invalid_argument);
    EXPECT_THROW(cache_.allocate_row(next_id_, 21), std::invalid_argument);
    EXPECT_THROW(cache_.free_row(next_id_), UnknownStream);
    EXPECT_THROW(cache_.commit_step(id, 21), std::logic_error);
  }

  void check() {
    std::set<int32_t> owned;
    int reserved = 0;
    for (const auto& [id, row] : rows_) {
      const auto table = cache_.block_table(id);
      ASSERT_EQ(cache_.cached_tokens(id), std::ssize(row.tokens));
      ASSERT_GE(std::ssize(table), pages(static_cast<int>(row.tokens.size())));
      ASSERT_LE(std::ssize(table), pages(row.ceiling));
      reserved += pages(row.ceiling);
      for (const int32_t page : table) ASSERT_TRUE(owned.insert(page).second) << "page " << page << " twice";
    }
    ASSERT_EQ(std::ssize(owned) + cache_.pool().num_free(), cache_.config().num_pages);
    ASSERT_EQ(cache_.reserved_pages(), reserved);
    ASSERT_EQ(cache_.num_rows(), std::ssize(rows_));
  }

  [[nodiscard]] StreamId any() {
    return std::next(rows_.begin(), dice_.roll(0, static_cast<int>(rows_.size()) - 1))->first;
  }

  Dice dice_;
  HostOps ops_;
  DecoderKvCacheManager cache_;
  PagedDecoderKv batch_;
  std::map<StreamId, Row> rows_;
  StreamId next_id_ = 1;
  int next_token_ = 1;
};

class DecoderKvModel : public testing::TestWithParam<std::tuple<int, DType>> {};

TEST_P(DecoderKvModel, PagedRowsHoldTheTokensOfPlainListsInPagesOfTheirOwn) {
  const uint64_t used_seed = seed();
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(used_seed));
  PagedModel model(std::get<0>(GetParam()), std::get<1>(GetParam()), used_seed);
  for (int i = 0; i < operations; ++i) {
    model.step();
    ASSERT_FALSE(HasFailure()) << "after operation " << i;
  }
  EXPECT_GT(model.refused_admissions, 0);
  EXPECT_GT(model.full_rows, 0);
}

TEST_P(DecoderKvModel, DenseGroupsHoldTheTokensOfPlainListsThroughSelectionsAndMerges) {
  const uint64_t used_seed = seed();
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(used_seed));
  Dice dice(used_seed);
  HostOps ops;
  const DecoderKvConfig config = config_for(std::get<0>(GetParam()), std::get<1>(GetParam()));
  DenseDecoderKv group(config, ops);
  DenseDecoderKv other(config, ops);
  std::vector<std::vector<int>> lists;
  std::vector<std::vector<int>> other_lists;
  int next_token = 1;
  const auto grow = [&](DenseDecoderKv& cache, std::vector<std::vector<int>>& tokens) {
    std::vector<int> counts;
    for (const auto& list : tokens) counts.push_back(20 - static_cast<int>(list.size()));
    if (std::ranges::any_of(counts, [](int room) { return room < 3; })) {
      tokens.assign(static_cast<size_t>(dice.roll(1, 4)), {});
      return cache.reset(static_cast<int>(tokens.size()));
    }
    for (int& count : counts) count = dice.roll(1, 3);
    cache.prepare_step(counts);
    for (size_t lane = 0; lane < tokens.size(); ++lane) {
      for (int i = 0; i < counts[lane]; ++i) {
        const int at = static_cast<int>(tokens[lane].size());
        write_token(cache, num_layers, static_cast<int>(lane), at, next_token);
        tokens[lane].push_back(next_token++);
      }
    }
    cache.commit_step(counts);
  };
  for (int i = 0; i < operations; ++i) {
    grow(other, other_lists);
    grow(group, lists);
    if (!lists.empty() && dice.roll(0, 1) == 0) {
      std::vector<int32_t> chosen(static_cast<size_t>(dice.roll(1, 9)));
      std::vector<std::vector<int>> selected;
      for (int32_t& lane : chosen) {
        lane = dice.roll(0, static_cast<int>(lists.size()) - 1);
        selected.push_back(lists[static_cast<size_t>(lane)]);
      }
      group.select(chosen);
      lists = selected;
    }
    if (lists.size() + other_lists.size() <= 9 && dice.roll(0, 3) == 0) {
      group.merge(other);
      lists.insert(lists.end(), other_lists.begin(), other_lists.end());
    }
    ASSERT_EQ(group.lanes(), std::ssize(lists));
    for (size_t lane = 0; lane < lists.size(); ++lane) {
      expect_tokens(group, num_layers, static_cast<int>(lane), lists[lane]);
    }
    ASSERT_FALSE(HasFailure()) << "after operation " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, DecoderKvModel,
                         testing::Combine(testing::Values(1, 4, 16),
                                          testing::Values(DType::f32, DType::f8e4m3)),
                         [](const auto& param) {
                           return "Page" + std::to_string(std::get<0>(param.param)) + "_" +
                                  std::string(decoder_kv_format_name(std::get<1>(param.param)));
                         });

}  // namespace
}  // namespace tutti
