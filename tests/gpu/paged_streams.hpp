#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "gpu/ops.hpp"
#include "tests/gpu/random_tensor.hpp"

// Streams with histories in a paged pool, for the tests of Ops::paged_attention.

namespace tutti::paged {

struct Geometry {
  int heads, head_dim, block_size;
  [[nodiscard]] int width() const { return heads * head_dim; }
};

/// A stream's own data, wherever it lies in the pool.
struct Stream {
  int rows, history, cache_begin, first_position;
  Tensor qkv;   ///< (rows, 3 D)
  Tensor k, v;  ///< (history, D)

  Stream(Random& random, const Geometry& geometry, int new_rows, int cached)
      : rows(new_rows),
        history(cached),
        cache_begin(random.between(0, geometry.block_size - 1)),
        first_position(cached + random.between(0, 20)),
        qkv(random.tensor({rows, 3 * geometry.width()})),
        k(random.tensor({history, geometry.width()})),
        v(random.tensor({history, geometry.width()})) {}
  [[nodiscard]] int frames() const { return cache_begin + history + rows; }
};

struct Shared {
  Tensor u, v, positions;
  Shared(Random& random, const Geometry& geometry, int max_position)
      : u(random.tensor({geometry.width()})),
        v(random.tensor({geometry.width()})),
        positions(random.tensor({max_position, geometry.width()})) {}
};

// A NaN that no arithmetic makes: reading foreign memory shows in the output, writing it in the pool.
inline const auto canary = std::bit_cast<float>(0x7fc0dead);

/// Streams in a pool whose blocks are dealt out at random, and the result of one call over them.
class Batch {
 public:
  Batch(Random& random, const Geometry& geometry, const std::vector<const Stream*>& streams)
      : geometry_(geometry), streams_(streams) {
    int blocks = 3;
    for (const Stream* s : streams_) table_width_ = std::max(table_width_, blocks_of(*s) + 1);
    for (const Stream* s : streams_) blocks += blocks_of(*s);
    std::vector<int32_t> free = random.permutation(blocks);
    const Shape shape{blocks, geometry.block_size, geometry.heads, geometry.head_dim};
    k_ = host_tensor(DType::f32, shape);
    v_ = host_tensor(DType::f32, shape);
    std::ranges::fill(Random::values(k_), canary);
    std::ranges::fill(Random::values(v_), canary);
    table_.resize(streams_.size() * static_cast<size_t>(table_width_), -1);
    for (size_t lane = 0; lane < streams_.size(); ++lane) {
      for (int b = 0; b < blocks_of(*streams_[lane]); ++b) {
        table_[lane * static_cast<size_t>(table_width_) + static_cast<size_t>(b)] = free.back();
        free.pop_back();
      }
      for (int t = 0; t < streams_[lane]->history; ++t) {
        copy(streams_[lane]->k.view()[t].f32(), frame(k_, lane, streams_[lane]->cache_begin + t));
        copy(streams_[lane]->v.view()[t].f32(), frame(v_, lane, streams_[lane]->cache_begin + t));
      }
    }
  }

  /// `attend` is called with the layout, the pool, the inputs and the output, all in host memory, as
  /// Ops::paged_attention is.
  template <class Attend>
  void run(const Shared& shared, Attend attend) {
    std::vector<int32_t> row_begin{0}, seqlens, begins, positions;
    for (const Stream* s : streams_) {
      row_begin.push_back(row_begin.back() + s->rows);
      seqlens.push_back(s->history);
      begins.push_back(s->cache_begin);
      positions.push_back(s->first_position);
    }
    const Tensor qkv = host_tensor(DType::f32, {row_begin.back(), 3 * geometry_.width()});
    out_ = host_tensor(DType::f32, {row_begin.back(), geometry_.width()});
    float* to = qkv.view().f32();
    for (const Stream* s : streams_) {
      to = std::ranges::copy(Random::values(s->qkv), to).out;
    }
    attend(BatchLayout{row_begin}, PagedKv{k_, v_, table_, table_width_, seqlens, begins},
           AttentionInputs{qkv, shared.u, shared.v, shared.positions, positions}, out_.view());
  }

  [[nodiscard]] TensorView output(size_t lane) const {
    int64_t begin = 0;
    for (size_t i = 0; i < lane; ++i) begin += streams_[i]->rows;
    return out_.view().slice(begin, streams_[lane]->rows);
  }

  /// After `run`: every lane's frames hold its history and its new rows, everything else its canaries.
  void expect_only_new_frames_written() {
    for (size_t lane = 0; lane < streams_.size(); ++lane) {
      const Stream& s = *streams_[lane];
      const auto width = static_cast<size_t>(geometry_.width());
      for (int t = 0; t < s.history + s.rows; ++t) {
        const float* fresh = t < s.history ? nullptr : s.qkv.view()[t - s.history].f32();
        const float* k = fresh == nullptr ? s.k.view()[t].f32() : fresh + width;
        const float* v = fresh == nullptr ? s.v.view()[t].f32() : fresh + 2 * width;
        for (auto [pool, expected] : {std::pair{k_.view(), k}, std::pair{v_.view(), v}}) {
          float* const held = frame(pool, lane, s.cache_begin + t);
          EXPECT_TRUE(same_bits({held, width}, {expected, width})) << "lane " << lane << " frame " << t;
          std::fill_n(held, width, canary);
        }
      }
    }
    const std::vector<float> untouched(Random::values(k_).size(), canary);
    EXPECT_TRUE(same_bits(Random::values(k_), untouched));
    EXPECT_TRUE(same_bits(Random::values(v_), untouched));
  }

 private:
  [[nodiscard]] int blocks_of(const Stream& s) const {
    return (s.frames() + geometry_.block_size - 1) / geometry_.block_size;
  }
  void copy(const float* from, float* to) const { std::copy_n(from, geometry_.width(), to); }
  [[nodiscard]] float* frame(const TensorView& pool, size_t lane, int logical) const {
    const auto row = lane * static_cast<size_t>(table_width_);
    const int32_t block = table_[row + static_cast<size_t>(logical / geometry_.block_size)];
    return pool[block][logical % geometry_.block_size].f32();
  }

  Geometry geometry_;
  std::vector<const Stream*> streams_;
  int table_width_ = 0;
  Tensor k_, v_, out_;
  std::vector<int32_t> table_;
};

inline std::vector<double> reference(const Geometry& geometry, const Stream& s, const Shared& shared) {
  const int dim = geometry.head_dim;
  const int keys = s.history + s.rows;
  const auto key = [&](int j) {
    return j < s.history ? s.k.view()[j].f32() : s.qkv.view()[j - s.history].f32() + geometry.width();
  };
  const auto value = [&](int j) {
    return j < s.history ? s.v.view()[j].f32() : s.qkv.view()[j - s.history].f32() + 2 * geometry.width();
  };
  std::vector<double> out;
  for (int i = 0; i < s.rows; ++i) {
    for (int head = 0; head < geometry.heads; ++head) {
      std::vector<double> weights;
      for (int j = 0; j < keys; ++j) {
        const float* p = shared.positions.view()[s.first_position - s.history + j].f32();
        double score = 0;
        for (int c = head * dim; c < (head + 1) * dim; ++c) {
          const double q = s.qkv.view()[i].f32()[c];
          score += (q + shared.u.view().f32()[c]) * key(j)[c] + (q + shared.v.view().f32()[c]) * p[c];
        }
        weights.push_back(score / std::sqrt(dim));
      }
      const double max = *std::ranges::max_element(weights);
      double sum = 0;
      for (double& w : weights) sum += w = std::exp(w - max);
      for (int c = head * dim; c < (head + 1) * dim; ++c) {
        double y = 0;
        for (int j = 0; j < keys; ++j) y += weights[static_cast<size_t>(j)] * value(j)[c];
        out.push_back(y / sum);
      }
    }
  }
  return out;
}

inline Geometry random_geometry(Random& random) {
  return {random.pick({1, 2, 4}), random.pick({16, 18, 32, 64}), random.pick({1, 4, 16})};
}

}  // namespace tutti::paged
