#include "gpu/cuda/ctc_search.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace tutti::cuda {

CudaCtcSearch::CudaCtcSearch(const PluginApi& api, int device, Staging& owner, const CtcSearchSpec& spec,
                             int states)
    : api_(api), owner_(owner), spec_(spec), layout_(ctc_state_layout(spec)) {
  assert(spec.beam <= max_ctc_beam);
  try {
    open(device, states);
  } catch (...) {
    close();
    throw;
  }
}

CudaCtcSearch::~CudaCtcSearch() { close(); }

void CudaCtcSearch::open(int device, int states) {
  check(api_, api_.allocate(device, static_cast<size_t>(states * layout_.bytes), &states_),
        "allocate memory");
  check(api_, api_.allocate_pinned(static_cast<size_t>(states * CtcFound::bytes(spec_)), 1, &found_),
        "pin memory");
  owner_.count_allocation();
  owner_.count_allocation();
}

void CudaCtcSearch::close() {
  if (states_ != nullptr) api_.release(states_);  // when what is queued is done
  if (found_ != nullptr) api_.release_pinned(found_);
}

CtcFound& CudaCtcSearch::found(int state) const { return CtcFound::of(found_, spec_, state); }

void CudaCtcSearch::search(std::span<const CtcSearchLane> lanes, const TensorView& ids,
                           const TensorView& log_probs, const TensorView& best_ids,
                           const TensorView& best_log_probs) {
  const auto [staged] = owner_.stage(lanes);
  const CtcSearchCall call{.lanes = staged,
                           .ids = ids.i32(),
                           .log_probs = log_probs.f32(),
                           .best_ids = best_ids.i32(),
                           .best_log_probs = best_log_probs.f32(),
                           .states = states_,
                           .found = found_,
                           .spec = spec_,
                           .layout = layout_,
                           .k = static_cast<int32_t>(ids.cols())};
  const auto kernel = spec_.beam == 0 ? api_.kernels.search_greedily : api_.kernels.search_prefixes;
  check(api_, kernel(owner_.queue(), call, static_cast<int>(lanes.size())), "search");
}

std::span<const CtcToken> CudaCtcSearch::best(int state) const {
  CtcFound& of_state = found(state);
  return {of_state.best(), static_cast<size_t>(of_state.tokens)};
}

int64_t CudaCtcSearch::used_bytes(int state) const { return tutti::used_bytes(layout_, found(state).used); }

void CudaCtcSearch::gather(int index, std::byte* to) {
  for_each_used_part(layout_, found(index).used, [&](int64_t offset, int64_t bytes) {
    owner_.copy(to, state(index) + offset, static_cast<size_t>(bytes));
    to += bytes;
  });
}

void CudaCtcSearch::read(int index, std::byte* to) {
  const auto bytes = static_cast<size_t>(used_bytes(index));
  std::byte* const here = owner_.place(bytes).host;
  gather(index, here);
  owner_.wait();
  std::copy_n(here, bytes, to);
}

void CudaCtcSearch::write(int index, std::span<const std::byte> used, std::span<const CtcToken> best) {
  CtcFound& of_state = found(index);
  std::memcpy(of_state.used, used.data(), sizeof(of_state.used));
  of_state.tokens = static_cast<int32_t>(best.size());
  std::ranges::copy(best, of_state.best());
  for_each_used_part(layout_, of_state.used, [&](int64_t offset, int64_t bytes) {
    const auto part = used.first(static_cast<size_t>(bytes));
    owner_.write(state(index) + offset, part.data(), part.size());
    used = used.subspan(part.size());
  });
}

}  // namespace tutti::cuda
