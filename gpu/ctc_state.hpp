#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

/// One token of a hypothesis. Frames count from the last reset of the state.
struct CtcToken {
  int32_t id = 0;
  int32_t first_frame = 0;  ///< of the run of frames that emitted it
  int32_t last_frame = 0;
  float log_prob = 0;  ///< of its most certain frame
  bool operator==(const CtcToken&) const = default;
};

/// What a CTC search is to find.
struct CtcSearchSpec {
  int32_t blank_id = 0;
  int32_t beam = 0;        ///< prefixes that it keeps, at most max_ctc_beam; 0: greedy
  int32_t max_tokens = 0;  ///< of a hypothesis; what comes after is dropped
};

inline constexpr int max_ctc_beam = 64;

/// A search's state of one stream as plain memory, the same on every device: a head, then lists, each of
/// which begins at its place and is used from its beginning on. A head begins with how many entries of each
/// list are used. What is not used has never been read, and need not be copied.
struct CtcStateLayout {
  static constexpr int most_lists = 3;
  struct List {
    int64_t begin = 0;  ///< bytes from the state's beginning
    int32_t entry_bytes = 0;
    int32_t capacity = 0;
  };
  int32_t head_bytes = 0;
  List lists[most_lists];
  int64_t bytes = 0;  ///< of all, a multiple of 8

  /// Puts a list behind what there is.
  constexpr void add(int list, size_t entry_bytes, int64_t capacity) {
    lists[list] = {bytes, static_cast<int32_t>(entry_bytes), static_cast<int32_t>(capacity)};
    bytes += (static_cast<int64_t>(entry_bytes) * capacity + 15) / 16 * 16;
  }
};

/// Of the search that `spec` asks for.
[[nodiscard]] CtcStateLayout ctc_state_layout(const CtcSearchSpec& spec);

/// What is used of a state, part by part: calls visit(offset, bytes) for its head and its lists, in order.
/// `used` is what its head says.
template <class Visit>
void for_each_used_part(const CtcStateLayout& layout, const int32_t* used, Visit visit) {
  visit(int64_t{0}, int64_t{layout.head_bytes});
  for (int i = 0; i < CtcStateLayout::most_lists; ++i) {
    const CtcStateLayout::List& list = layout.lists[i];
    if (list.entry_bytes > 0) visit(list.begin, int64_t{used[i]} * list.entry_bytes);
  }
}

/// Bytes of what is used.
[[nodiscard]] inline int64_t used_bytes(const CtcStateLayout& layout, const int32_t* used) {
  int64_t sum = 0;
  for_each_used_part(layout, used, [&sum](int64_t /*offset*/, int64_t bytes) { sum += bytes; });
  return sum;
}

}  // namespace tutti
