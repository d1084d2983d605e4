#include "gpu/ctc_beam.hpp"
#include "gpu/ctc_greedy.hpp"
#include "gpu/cuda/reduce.cuh"

namespace tutti::cuda {
namespace {

constexpr int greedy_threads = 64;
constexpr int most_candidates = max_ctc_beam * (max_ctc_beam + 1);
constexpr double no_total = BeamSearch::log_zero;

__device__ std::byte* state_of(const CtcSearchCall& call, const CtcSearchLane& lane) {
  return call.states + lane.state * call.layout.bytes;
}

__device__ void tell_used(const int32_t* used, CtcFound& found) {
  for (int i = 0; i < CtcStateLayout::most_lists; ++i) found.used[i] = used[i];
}

// One thread a lane.
__global__ void search_greedily_lanes(CtcSearchCall call, int lanes) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index >= lanes) return;
  const CtcSearchLane lane = call.lanes[index];
  GreedySearch search(call.spec, call.layout, state_of(call, lane));
  if (lane.restart != 0) search.reset();
  const int before = search.head().used[0];
  for (int row = lane.first_row; row < lane.first_row + lane.rows; ++row) {
    const int64_t best = int64_t{row} * call.k;
    search.step(call.ids[best], call.log_probs[best]);
    call.best_ids[row] = call.ids[best];
    call.best_log_probs[row] = call.log_probs[best];
  }
  CtcFound& found = CtcFound::of(call.found, call.spec, lane.state);
  // The host has those before the last one, which may have gone on.
  for (int i = before > 0 ? before - 1 : 0; i < search.head().used[0]; ++i) {
    found.best()[i] = search.tokens()[i];
  }
  found.tokens = search.head().used[0];
  tell_used(search.head().used, found);
}

struct Shared {
  SharedArray<int, 1> entries;
  SharedArray<double, most_candidates> totals;
  SharedArray<int, max_ctc_beam> winners;
  SharedArray<BeamSearch::Candidate, max_ctc_beam> kept;
};

// Copies each row's best token, and returns how many rows there are before one that is not finite.
__device__ int copy_best(const CtcSearchCall& call, const CtcSearchLane& lane) {
  int finite = lane.rows;
  for (int i = static_cast<int>(threadIdx.x); i < lane.rows; i += warp_threads) {
    const int row = lane.first_row + i;
    const float* const log_probs = call.log_probs + int64_t{row} * call.k;
    float sum = 0.0F;  // of zeros and NaN
    for (int j = 0; j < call.k; ++j) sum += log_probs[j] - log_probs[j];
    call.best_ids[row] = call.ids[int64_t{row} * call.k];
    call.best_log_probs[row] = log_probs[0] + sum;
    if (sum != 0.0F && i < finite) finite = i;
  }
  return warp_reduce(finite, Smaller());
}

// The candidates with the largest totals, largest first, in `winners`. Each thread looks through its own.
__device__ int take_best(Shared& shared, int candidates, int most) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int taken = 0; taken < most; ++taken) {
    double best = no_total;
    int at = candidates;
    for (int c = thread; c < candidates; c += warp_threads) {
      const double total = shared.totals(c);
      if (total > best) {
        best = total;
        at = c;
      }
    }
    const double largest = warp_reduce(best, Larger());
    if (largest == no_total) return taken;
    const int winner = warp_reduce(best == largest ? at : candidates, Smaller());
    if (winner == at) {
      shared.totals(winner) = no_total;
      shared.winners(taken) = winner;
    }
  }
  return most;
}

// One warp a lane: its threads share a frame's candidates, and the first one does the rest.
__global__ void search_prefixes_lanes(CtcSearchCall call) {
  Shared& shared = shared_memory<Shared>();
  const int thread = static_cast<int>(threadIdx.x);
  const CtcSearchLane lane = call.lanes[blockIdx.x];
  BeamSearch beam(call.spec, call.layout, state_of(call, lane));
  const int frames = copy_best(call, lane);
  if (thread == 0) {
    if (lane.restart != 0) beam.reset();
    shared.entries(0) = beam.entries();
  }
  for (int frame = 0; frame < frames; ++frame) {
    __syncthreads();
    const int64_t first = int64_t{lane.first_row + frame} * call.k;
    const auto candidate = [&](int c) {
      return beam.candidate(c, call.ids + first, call.log_probs + first, call.k);
    };
    const int candidates = shared.entries(0) * (1 + call.k);
    for (int c = thread; c < candidates; c += warp_threads) shared.totals(c) = candidate(c).scores.total();
    const int entries = take_best(shared, candidates, call.spec.beam);
    __syncthreads();
    for (int i = thread; i < entries; i += warp_threads) shared.kept(i) = candidate(shared.winners(i));
    __syncthreads();
    if (thread == 0) {
      for (int i = 0; i < entries; ++i) beam.keep(i, shared.kept(i));
      beam.replace(entries);
      shared.entries(0) = entries;
    }
  }
  if (thread != 0) return;
  CtcFound& found = CtcFound::of(call.found, call.spec, lane.state);
  beam.write_tokens(beam.entry(0), found.best());
  found.tokens = beam.entry(0).length;
  tell_used(beam.used(), found);
}

}  // namespace

int search_greedily(Queue* queue, const CtcSearchCall& call, int lanes) {
  return launch(queue, search_greedily_lanes, dim3(blocks_for(lanes, greedy_threads)), dim3(greedy_threads),
                call, lanes);
}

int search_prefixes(Queue* queue, const CtcSearchCall& call, int lanes) {
  return launch(queue, search_prefixes_lanes, dim3(static_cast<unsigned>(lanes)), dim3(warp_threads), call);
}

}  // namespace tutti::cuda
