#pragma once

#include "gpu/ctc_search.hpp"
#include "gpu/cuda/staging.hpp"

namespace tutti::cuda {

/// A CtcSearch whose kernels tell the host of the best hypotheses through memory that it has mapped for them:
/// as many tokens as there are cross the bus, whose number nobody needs to know before.
class CudaCtcSearch final : public CtcSearch {
 public:
  /// `owner` outlives it.
  CudaCtcSearch(const PluginApi& api, int device, Staging& owner, const CtcSearchSpec& spec, int states);
  ~CudaCtcSearch() override;
  CudaCtcSearch(const CudaCtcSearch&) = delete;
  CudaCtcSearch& operator=(const CudaCtcSearch&) = delete;

  void search(std::span<const CtcSearchLane> lanes, const TensorView& ids, const TensorView& log_probs,
              const TensorView& best_ids, const TensorView& best_log_probs) override;
  [[nodiscard]] std::span<const CtcToken> best(int state) const override;
  [[nodiscard]] int64_t used_bytes(int state) const override;
  void gather(int state, std::byte* to) override;
  void read(int state, std::byte* to) override;
  void write(int state, std::span<const std::byte> used, std::span<const CtcToken> best) override;

 private:
  void open(int device, int states);
  void close();
  [[nodiscard]] std::byte* state(int index) const { return states_ + index * layout_.bytes; }
  [[nodiscard]] CtcFound& found(int state) const;

  const PluginApi& api_;
  Staging& owner_;
  CtcSearchSpec spec_;
  CtcStateLayout layout_;
  std::byte* states_ = nullptr;
  std::byte* found_ = nullptr;
};

}  // namespace tutti::cuda
