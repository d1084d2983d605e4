#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gpu/device.hpp"
#include "model/conformer.hpp"
#include "model/safetensors.hpp"

namespace tutti {

/// Recomputes what a golden file holds: runs its stored features (`U.feats`) through every mode stored beside
/// them
/// (`U.full`, `U.stream.cC_lL`, `U.stream_offsetN.cC_lL`, `U.pipe.cC_lL`, `U.debug`) and returns the results
/// under the golden names; with a model that has its attention decoders also `*.dec.*` and `*.resc.*` (see
/// golden_decoder.hpp). Not computed is `*.nbest_times`, which differs from the Viterbi times in
/// `*.nbest_times_viterbi` where WeNet keeps the times of a path that is not the best.
/// `model` is packed for the kind of `device`, which computes.
[[nodiscard]] TensorMap recompute_golden(std::shared_ptr<const ConformerCtc> model, const TensorMap& golden,
                                         const Device& device);

/// Positions that the modes stored in a golden file address.
[[nodiscard]] int golden_positions(const TensorMap& golden);

struct GoldenComparison {
  struct Row {
    std::string name;
    std::string shape;
    double max_difference = 0;  ///< infinite when the shapes differ
    double tolerance = 0;       ///< 0: exact
    [[nodiscard]] bool passes() const { return max_difference <= tolerance; }
  };
  std::vector<Row> rows;             ///< in name order
  std::vector<std::string> skipped;  ///< known not to be computed
  std::vector<std::string> missing;  ///< neither computed nor known
  [[nodiscard]] bool passes() const;
};

/// Compares by the tolerances of the reference data: CTC log-probabilities 5e-5, encoder output, caches and
/// intermediates 1e-4, decoder log-probabilities 2e-4, scores 1e-3, confidences 1e-4, integers exact.
[[nodiscard]] GoldenComparison compare_golden(const TensorMap& golden, const TensorMap& computed);

}  // namespace tutti
