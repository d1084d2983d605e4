#include "gpu/ctc_state.hpp"

#include "gpu/ctc_beam.hpp"
#include "gpu/ctc_greedy.hpp"

namespace tutti {

CtcStateLayout ctc_state_layout(const CtcSearchSpec& spec) {
  return spec.beam == 0 ? GreedySearch::layout(spec) : BeamSearch::layout(spec);
}

}  // namespace tutti
