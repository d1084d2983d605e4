#include "gpu/cpu/log_softmax.hpp"

#include <cstdint>
#include <limits>

#include "gpu/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/log_softmax.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "gpu/cpu/exp-inl.hpp"
#include "gpu/cpu/simd-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {

/// The k largest values seen so far, in order.
class TopK {
 public:
  TopK(int k, int32_t* ids, float* values) : k_(k), ids_(ids), values_(values) {}

  /// Candidates must come in the order of their ids: a later equal goes behind, so the smaller id wins.
  void offer(int32_t id, float value) {
    if (size_ == k_ && !(value > values_[k_ - 1])) return;
    int at = size_ < k_ ? size_++ : k_ - 1;
    for (; at > 0 && value > values_[at - 1]; --at) {
      values_[at] = values_[at - 1];
      ids_[at] = ids_[at - 1];
    }
    values_[at] = value;
    ids_[at] = id;
  }
  [[nodiscard]] bool full() const { return size_ == k_; }
  [[nodiscard]] float smallest() const { return values_[k_ - 1]; }

 private:
  int k_;
  int size_ = 0;
  int32_t* ids_;
  float* values_;
};

template <class D>
float max_of(D d, const float* x, size_t n) {
  const size_t lanes = hn::Lanes(d);
  auto largest = hn::Set(d, x[0]);
  size_t c = 0;
  for (; c + lanes <= n; c += lanes) largest = hn::Max(largest, hn::LoadU(d, x + c));
  float result = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; c < n; ++c) result = std::max(result, x[c]);
  return result;
}

/// Sum of exp(x - max), in double above blocks: tens of thousands of float additions would show in the fifth
/// digit.
template <class D>
double sum_of_exp(D d, const float* x, size_t n, float max) {
  constexpr size_t block_length = 512;
  const auto shift = hn::Set(d, max);
  double total = 0.0;
  for (size_t begin = 0; begin < n; begin += block_length) {
    const size_t length = std::min(block_length, n - begin);
    total += sum_over(d, x + begin, length,
                      [=](auto v) HWY_ATTR { return exp_nonpositive(d, hn::Sub(v, shift)); });
  }
  return total;
}

void log_softmax_row(float* x, size_t n, int k, int32_t* ids, float* values) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const float max = max_of(d, x, n);
  const auto shift = hn::Set(d, max);
  const auto log_sum = hn::Set(d, static_cast<float>(std::log(sum_of_exp(d, x, n, max))));
  TopK top(k, ids, values);
  for (size_t c = 0; c < n; c += lanes) {
    const auto y = hn::Sub(hn::Sub(load_first(d, x + c, n - c), shift), log_sum);
    store_first(d, y, x + c, n - c);
    if (top.full() && hn::AllFalse(d, hn::Gt(y, hn::Set(d, top.smallest())))) continue;
    const size_t end = std::min(c + lanes, n);
    for (size_t i = c; i < end; ++i) top.offer(static_cast<int32_t>(i), x[i]);
  }
}

void log_softmax_rows(float* x, size_t rows, size_t cols, int k, int32_t* ids, float* values) {
  const auto width = static_cast<size_t>(k);
  for (size_t r = 0; r < rows; ++r)
    log_softmax_row(x + r * cols, cols, k, ids + r * width, values + r * width);
}

}  // namespace
}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
HWY_EXPORT(log_softmax_rows);

void log_softmax_top_k(const TensorView& logits, int k, const TensorView& ids, const TensorView& values) {
  assert(k >= 1 && k <= logits.cols() && ids.cols() == k && values.cols() == k);
  HWY_DYNAMIC_DISPATCH(log_softmax_rows)
  (logits.f32(), static_cast<size_t>(logits.rows()), static_cast<size_t>(logits.cols()), k, ids.i32(),
   values.f32());
}

}  // namespace tutti::cpu
#endif  // HWY_ONCE
