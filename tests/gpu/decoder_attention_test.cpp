#include "gpu/cpu/decoder_attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "gpu/bfloat16.hpp"
#include "gpu/float8.hpp"
#include "tests/gpu/every_target.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace tutti {
namespace {

constexpr DType formats[] = {DType::f32, DType::bf16, DType::f8e4m3};

struct Geometry {
  int heads, sharing, head_dim, page_tokens;
  DType format;
  /// Of keys, and of values.
  [[nodiscard]] int width() const { return heads * head_dim; }
  /// Of queries, and of the output.
  [[nodiscard]] int query_width() const { return width() * sharing; }
};

/// What a row holds, and what it gets.
struct Row {
  int history, rows;
  Tensor past;    ///< (history, 2 width): keys, values
  Tensor inputs;  ///< (rows, query_width + 2 width), or (rows, query_width) for cross-attention

  Row(Random& random, const Geometry& g, int held, int new_rows, bool self)
      : history(held),
        rows(new_rows),
        past(random.tensor({held, 2 * g.width()})),
        inputs(random.tensor({new_rows, g.query_width() + (self ? 2 * g.width() : 0)})) {}
};

BatchLayout layout_of(std::vector<int32_t>& row_begin, const std::vector<int>& counts) {
  row_begin.assign(1, 0);
  for (const int count : counts) row_begin.push_back(row_begin.back() + count);
  return {row_begin};
}

/// Pages dealt out at random, or one page a row in the order of the rows; foreign memory is not a number.
class Cache {
 public:
  Cache(Random& random, const Geometry& g, const std::vector<int>& tokens, bool dense) : geometry_(g) {
    const int longest = std::max(1, *std::ranges::max_element(tokens));
    page_ = dense ? longest : g.page_tokens;
    int pages = dense ? 0 : 3;
    for (const int count : tokens) pages += pages_of(count);
    width_ = pages_of(longest) + (dense ? 0 : 1);
    std::vector<int32_t> free = random.permutation(pages);
    if (dense) std::ranges::sort(free, std::greater());
    table_.resize(tokens.size() * static_cast<size_t>(width_), -1);
    for (size_t lane = 0; lane < tokens.size(); ++lane) {
      for (int page = 0; page < pages_of(tokens[lane]); ++page) {
        table_[lane * static_cast<size_t>(width_) + static_cast<size_t>(page)] = free.back();
        free.pop_back();
      }
    }
    const Shape shape{pages, page_, g.heads, g.head_dim};
    for (Tensor* t : {&k_, &v_}) {
      *t = host_tensor(g.format, shape);
      std::memset(t->view().data, 0xFF, t->bytes());
    }
    for (Tensor* t : {&k_scales_, &v_scales_}) {
      if (g.format == DType::f8e4m3) {
        *t = host_tensor(DType::f32, {pages, page_, g.heads});
        std::ranges::fill(Random::values(*t), NAN);
      }
    }
  }

  [[nodiscard]] DecoderKv view(const std::vector<int32_t>& seqlens) const {
    return {k_, v_, k_scales_, v_scales_, table_, width_, seqlens};
  }
  /// Place of a token of a lane in the cache.
  [[nodiscard]] int64_t place(size_t lane, int token) const {
    const auto at = lane * static_cast<size_t>(width_) + static_cast<size_t>(token / page_);
    return int64_t{table_[at]} * page_ + token % page_;
  }
  /// All its memory.
  [[nodiscard]] std::vector<std::byte> bytes() const {
    std::vector<std::byte> all;
    for (const Tensor* t : {&k_, &v_, &k_scales_, &v_scales_}) {
      if (t->view().data != nullptr) all.insert(all.end(), t->view().data, t->view().data + t->bytes());
    }
    return all;
  }
  /// Makes a token what nobody wrote.
  void erase(size_t lane, int token) {
    const int64_t at = place(lane, token);
    const size_t bytes = static_cast<size_t>(geometry_.width()) * size_of(geometry_.format);
    for (const Tensor* t : {&k_, &v_}) {
      std::memset(t->view().data + static_cast<size_t>(at) * bytes, 0xFF, bytes);
    }
    if (geometry_.format != DType::f8e4m3) return;
    for (const Tensor* t : {&k_scales_, &v_scales_}) {
      std::fill_n(t->view().f32() + at * geometry_.heads, geometry_.heads, NAN);
    }
  }

 private:
  [[nodiscard]] int pages_of(int tokens) const { return (tokens + page_ - 1) / page_; }

  Geometry geometry_;
  int page_ = 0;
  int width_ = 0;
  std::vector<int32_t> table_;
  Tensor k_, v_, k_scales_, v_scales_;
};

using Rows = std::vector<const Row*>;

std::vector<int> counts(const Rows& rows, bool with_new) {
  std::vector<int> result;
  for (const Row* row : rows) result.push_back(row->history + (with_new ? row->rows : 0));
  return result;
}

/// The rows' tensors one behind the other.
Tensor packed(const Rows& rows, Tensor Row::*part, int width) {
  std::vector<float> values;
  for (const Row* row : rows) {
    const std::span<const float> more = Random::values(row->*part);
    values.insert(values.end(), more.begin(), more.end());
  }
  return host_tensor({static_cast<int64_t>(values.size()) / width, width}, values);
}

std::span<float> scratch_for(const Geometry& g) {
  static std::vector<float> scratch;
  scratch.assign(cpu::decoder_attention_scratch_floats(g.head_dim), NAN);
  return scratch;
}

/// Appends the histories.
void fill(const Geometry& g, const Cache& cache, const Rows& rows) {
  std::vector<int32_t> row_begin;
  const std::vector<int32_t> empty(rows.size(), 0);
  cpu::append_decoder_kv(layout_of(row_begin, counts(rows, false)), cache.view(empty),
                         packed(rows, &Row::past, 2 * g.width()));
}

/// Attends all new rows in one call; (all rows, query_width).
Tensor attend(const Geometry& g, const Cache& cache, const Rows& rows, bool self) {
  std::vector<int> new_rows;
  for (const Row* row : rows) new_rows.push_back(row->rows);
  std::vector<int32_t> row_begin;
  const BatchLayout layout = layout_of(row_begin, new_rows);
  const std::vector<int32_t> seqlens = counts(rows, false);
  const Tensor inputs = packed(rows, &Row::inputs, g.query_width() + (self ? 2 * g.width() : 0));
  Tensor out = host_tensor(DType::f32, {layout.rows(), g.query_width()});
  std::ranges::fill(Random::values(out), NAN);
  const auto operation = self ? cpu::decoder_self_attention : cpu::decoder_cross_attention;
  operation(layout, cache.view(seqlens), inputs, out, scratch_for(g));
  return out;
}

TensorView output_of(const Tensor& out, const Rows& rows, size_t lane) {
  int64_t begin = 0;
  for (size_t i = 0; i < lane; ++i) begin += rows[i]->rows;
  return out.view().slice(begin, rows[lane]->rows);
}

/// What the cache makes of a head's vector, by the scalar functions.
std::vector<float> stored(const Geometry& g, const float* x) {
  std::vector<float> kept(x, x + g.head_dim);
  float amax = 0;
  for (const float value : kept) amax = std::max(amax, std::abs(value));
  const float scale = float8_e4m3_scale(amax);
  for (float& value : kept) {
    if (g.format == DType::bf16) value = from_bfloat16(to_bfloat16(value));
    if (g.format == DType::f8e4m3) value = from_float8_e4m3(to_float8_e4m3(value / scale)) * scale;
  }
  return kept;
}

/// One query head of one row of inputs against the first `visible` keys, in double.
std::vector<double> attended(const Geometry& g, const Row& row, int query, int head, int visible, bool self) {
  const int column = head / g.sharing * g.head_dim;
  const auto vector = [&](int key, bool values) {
    const int offset = column + (values ? g.width() : 0);
    if (key < row.history) return stored(g, row.past.view()[key].f32() + offset);
    const float* given = row.inputs.view()[key - row.history].f32() + g.query_width() + offset;
    if (self && row.history == 0) return std::vector<float>(given, given + g.head_dim);
    return stored(g, given);
  };
  const float* q = row.inputs.view()[query].f32() + head * g.head_dim;
  std::vector<double> weights;
  for (int key = 0; key < visible; ++key) {
    const std::vector<float> k = vector(key, false);
    double dot = 0;
    for (int c = 0; c < g.head_dim; ++c) dot += static_cast<double>(q[c]) * k[static_cast<size_t>(c)];
    weights.push_back(dot / std::sqrt(g.head_dim));
  }
  std::vector<double> out(static_cast<size_t>(g.head_dim), 0.0);
  if (visible == 0) return out;
  const double maximum = *std::ranges::max_element(weights);
  double sum = 0;
  for (double& w : weights) sum += w = std::exp(w - maximum);
  for (int key = 0; key < visible; ++key) {
    const std::vector<float> v = vector(key, true);
    for (size_t c = 0; c < out.size(); ++c) out[c] += weights[static_cast<size_t>(key)] / sum * v[c];
  }
  return out;
}

std::vector<double> reference(const Geometry& g, const Row& row, bool self) {
  std::vector<double> out;
  for (int query = 0; query < row.rows; ++query) {
    for (int head = 0; head < g.heads * g.sharing; ++head) {
      const int visible = self ? row.history + query + 1 : row.history;
      const std::vector<double> part = attended(g, row, query, head, visible, self);
      out.insert(out.end(), part.begin(), part.end());
    }
  }
  return out;
}

Geometry random_geometry(Random& random, DType format) {
  return {random.pick({1, 2, 3}), random.pick({1, 1, 2}), random.pick({8, 16, 18, 33, 64, 128}),
          random.pick({1, 4, 16}), format};
}

std::vector<Row> random_rows(Random& random, const Geometry& g, int lanes, bool self) {
  std::vector<Row> rows;
  for (; lanes > 0; --lanes) {
    const int history = random.pick({0, 1, 15, 16, 63, 64, 65, 128, random.between(1, 200)});
    rows.emplace_back(random, g, history, random.pick({1, 1, 2, 33, random.between(1, 50)}), self);
  }
  return rows;
}

Rows pointers(const std::vector<Row>& rows) {
  Rows all;
  for (const Row& row : rows) all.push_back(&row);
  return all;
}

class DecoderAttention : public testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  [[nodiscard]] static DType format() { return std::get<0>(GetParam()); }
  [[nodiscard]] static bool self() { return std::get<1>(GetParam()); }
};

std::string name_of(DType format) {
  return format == DType::f32 ? "F32" : format == DType::bf16 ? "Bf16" : "Fp8";
}

INSTANTIATE_TEST_SUITE_P(Formats, DecoderAttention,
                         testing::Combine(testing::ValuesIn(formats), testing::Bool()),
                         [](const auto& param) {
                           return (std::get<1>(param.param) ? "Self" : "Cross") +
                                  name_of(std::get<0>(param.param));
                         });

TEST_P(DecoderAttention, MatchesADoubleReferenceAndWritesOnlyItsNewTokens) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const Geometry g = random_geometry(random, format());
    const std::vector<Row> rows = random_rows(random, g, random.between(1, 4), self());
    const Rows lanes = pointers(rows);
    std::vector<std::vector<double>> expected;
    for (const Row& row : rows) expected.push_back(reference(g, row, self()));
    on_every_target([&] {
      Cache cache(random, g, counts(lanes, true), false);
      const std::vector<std::byte> untouched = cache.bytes();
      fill(g, cache, lanes);
      const std::vector<std::byte> filled = cache.bytes();
      const Tensor out = attend(g, cache, lanes, self());
      for (size_t lane = 0; lane < lanes.size(); ++lane) {
        EXPECT_TRUE(close_to(Random::values(output_of(out, lanes, lane)), expected[lane], 5e-6))
            << "lane " << lane << ", " << rows[lane].rows << " rows behind " << rows[lane].history;
      }
      for (size_t lane = 0; lane < lanes.size(); ++lane) {
        for (int row = 0; self() && row < rows[lane].rows; ++row) cache.erase(lane, rows[lane].history + row);
      }
      EXPECT_EQ(cache.bytes(), filled) << "the history changed, or something behind the new tokens";
      for (size_t lane = 0; lane < lanes.size(); ++lane) {
        for (int token = 0; token < rows[lane].history; ++token) cache.erase(lane, token);
      }
      EXPECT_EQ(cache.bytes(), untouched) << "append wrote outside the history";
    });
  }
}

TEST_P(DecoderAttention, GivesARowTheSameBitsAloneAndAnywhereInACrowd) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const Geometry g = random_geometry(random, format());
    const std::vector<Row> rows = random_rows(random, g, 5, self());
    Rows lanes;
    for (const int32_t i : random.permutation(5)) lanes.push_back(&rows[static_cast<size_t>(i)]);
    on_every_target([&] {
      const Cache crowded(random, g, counts(lanes, true), false);
      fill(g, crowded, lanes);
      const Tensor crowd = attend(g, crowded, lanes, self());
      for (size_t lane = 0; lane < lanes.size(); ++lane) {
        const Rows one{lanes[lane]};
        const Cache cache(random, g, counts(one, true), false);
        fill(g, cache, one);
        EXPECT_TRUE(same_bits(Random::values(attend(g, cache, one, self())),
                              Random::values(output_of(crowd, lanes, lane))));
      }
    });
  }
}

TEST_P(DecoderAttention, GivesTheSameBitsFromPagesAndFromOneBufferARow) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const Geometry g = random_geometry(random, format());
    const std::vector<Row> rows = random_rows(random, g, 4, self());
    const Rows lanes = pointers(rows);
    on_every_target([&] {
      std::vector<Tensor> outs;
      for (const bool dense : {false, true}) {
        const Cache cache(random, g, counts(lanes, true), dense);
        fill(g, cache, lanes);
        outs.push_back(attend(g, cache, lanes, self()));
      }
      EXPECT_TRUE(same_bits(Random::values(outs[0]), Random::values(outs[1])));
    });
  }
}

TEST(DecoderSelfAttention, GivesAPrefillTheBitsOfItsTokensOneByOne) {
  Random random(5);
  SCOPED_TRACE(random.trace());
  const Geometry g{2, 1, 24, 4, DType::f32};
  const Row all(random, g, 0, 150, true);
  on_every_target([&] {
    const Cache cache(random, g, {150}, false);
    const Tensor prefill = attend(g, cache, {&all}, true);
    const Cache steps(random, g, {150}, false);
    const std::vector<int32_t> row_begin{0, 1};
    const Tensor out = host_tensor(DType::f32, {1, g.query_width()});
    for (int t = 0; t < all.rows; ++t) {
      const std::vector<int32_t> seqlens{t};
      cpu::decoder_self_attention({row_begin}, steps.view(seqlens), all.inputs.view().slice(t, 1), out,
                                  scratch_for(g));
      ASSERT_TRUE(same_bits(Random::values(out), Random::values(prefill.view()[t]))) << "token " << t;
    }
  });
}

TEST(DecoderSelfAttention, AttendsAPromptAsItIsGivenWhateverTheFormat) {
  Random random(6);
  SCOPED_TRACE(random.trace());
  Geometry g{2, 1, 32, 4, DType::f32};
  const Row prompt(random, g, 0, 40, true);
  on_every_target([&] {
    std::vector<Tensor> outs;
    for (const DType format : formats) {
      g.format = format;
      const Cache cache(random, g, {40}, false);
      outs.push_back(attend(g, cache, {&prompt}, true));
    }
    EXPECT_TRUE(same_bits(Random::values(outs[0]), Random::values(outs[1])));
    EXPECT_TRUE(same_bits(Random::values(outs[0]), Random::values(outs[2])));
  });
}

TEST(DecoderCrossAttention, GivesHypothesesThatShareALaneTheBitsOfLanesThatRepeatItsTable) {
  for (const DType format : formats) {
    Random random(7);
    SCOPED_TRACE(name_of(format) + ", " + random.trace());
    const Geometry g{2, 1, 16, 4, format};
    const Row utterance(random, g, 90, 40, false);
    on_every_target([&] {
      const Cache cache(random, g, {90}, false);
      fill(g, cache, {&utterance});
      const Tensor shared = attend(g, cache, {&utterance}, false);
      const std::vector<int32_t> seqlens{90};
      const DecoderKv kv = cache.view(seqlens);
      std::vector<int32_t> tables;
      for (int i = 0; i < 4; ++i) {
        tables.insert(tables.end(), kv.block_table.begin(), kv.block_table.end());
      }
      const std::vector<int32_t> row_begin{0, 10, 11, 30, 40};
      const std::vector<int32_t> lengths(4, 90);
      const Tensor out = host_tensor(DType::f32, {40, g.query_width()});
      cpu::decoder_cross_attention({row_begin},
                                   {kv.k, kv.v, kv.k_scales, kv.v_scales, tables, kv.table_width, lengths},
                                   utterance.inputs, out, scratch_for(g));
      EXPECT_TRUE(same_bits(Random::values(shared), Random::values(out)));
    });
  }
}

TEST(DecoderAttentionKernel, SurvivesScoresFarBeyondTheRangeOfExp) {
  for (const DType format : formats) {
    Random random(8);
    SCOPED_TRACE(name_of(format) + ", " + random.trace());
    const Geometry g{2, 1, 16, 4, format};
    Row row(random, g, 300, 5, true);
    for (float& x : Random::values(row.past)) x *= 30.0F;
    for (float& x : Random::values(row.inputs)) x *= 30.0F;
    on_every_target([&] {
      const Cache cache(random, g, {305}, false);
      fill(g, cache, {&row});
      EXPECT_TRUE(close_to(Random::values(attend(g, cache, {&row}, true)), reference(g, row, true), 2e-4));
    });
  }
}

/// The scalar functions' codes and scale of a head's vector.
void expect_stored(const DecoderKv& kv, int64_t head_at, std::span<const float> x) {
  const auto n = static_cast<int64_t>(x.size());
  if (kv.k.dtype == DType::f32) {
    EXPECT_TRUE(same_bits({kv.k.f32() + head_at * n, x.size()}, x));
    return;
  }
  float amax = 0;
  for (const float value : x) amax = std::isnan(value) ? value : std::max(amax, std::abs(value));
  const float scale = float8_e4m3_scale(amax);
  if (kv.k.dtype == DType::f8e4m3) {
    EXPECT_EQ(kv.k_scales.f32()[head_at], scale);
  }
  for (int64_t c = 0; c < n; ++c) {
    const float value = x[static_cast<size_t>(c)];
    if (kv.k.dtype == DType::bf16)
      EXPECT_EQ(kv.k.as<uint16_t>()[head_at * n + c], to_bfloat16(value)) << value;
    else
      EXPECT_EQ(kv.k.as<uint8_t>()[head_at * n + c], to_float8_e4m3(value / scale)) << value;
  }
}

TEST(AppendDecoderKv, StoresWhatTheScalarFunctionsSay) {
  for (const DType format : formats) {
    for (int head_dim = 1; head_dim <= 40; ++head_dim) {
      Random random(static_cast<uint64_t>(head_dim));
      SCOPED_TRACE(name_of(format) + ", head_dim " + std::to_string(head_dim) + ", " + random.trace());
      const Geometry g{3, 1, head_dim, 4, format};
      const Row row(random, g, 9, 1, false);
      for (float& x : Random::values(row.past)) x = std::ldexp(x, random.between(-12, 12));
      on_every_target([&] {
        const Cache cache(random, g, {9}, false);
        fill(g, cache, {&row});
        const std::vector<int32_t> seqlens{9};
        for (int token = 0; token < 9; ++token) {
          for (int head = 0; head < g.heads; ++head) {
            const float* x = row.past.view()[token].f32() + head * head_dim;
            expect_stored(cache.view(seqlens), cache.place(0, token) * g.heads + head,
                          {x, static_cast<size_t>(head_dim)});
          }
        }
      });
    }
  }
}

TEST(AppendDecoderKv, StoresExtremeValuesAsTheScalarFunctionsDo) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<std::vector<float>> vectors{
      {0, -0.0F, 0, 0, 0, 0, 0, 0, 0},
      {448, -448, 7.5F, 0x1p-9F, 0x1p-10F, 3 * 0x1p-10F, -0x1p-11F, 1, 2},
      {std::nextafter(448.0F, 500.0F), 464, 1, 0, 0x1p-8F, 0x1p-7F, 0x1p-6F, -1, -2},
      {infinity, -infinity, 1, 0, 0, 0, 0, 0, 0},
      {1, 2, std::numeric_limits<float>::quiet_NaN(), 0, 0, 0, 0, 0, 0},
      {0x1p-149F, 0x1p-140F, -0x1p-126F, 0, 0, 0, 0, 0, 0}};
  for (const DType format : formats) {
    Random random(9);
    const Geometry g{1, 1, 9, 4, format};
    for (const std::vector<float>& vector : vectors) {
      SCOPED_TRACE(name_of(format) + ", from " + std::to_string(vector[0]));
      const Row row(random, g, 1, 1, false);
      std::ranges::copy(vector, Random::values(row.past).begin());
      on_every_target([&] {
        const Cache cache(random, g, {1}, false);
        fill(g, cache, {&row});
        const std::vector<int32_t> seqlens{1};
        expect_stored(cache.view(seqlens), cache.place(0, 0), vector);
      });
    }
  }
}

}  // namespace
}  // namespace tutti
