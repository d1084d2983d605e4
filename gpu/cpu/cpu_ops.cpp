#include "gpu/cpu/cpu_ops.hpp"

#include <algorithm>
#include <cassert>
#include <string>

#include "gpu/cpu/aligned_buffer.hpp"
#include "gpu/cpu/attention.hpp"
#include "gpu/cpu/conv_module.hpp"
#include "gpu/cpu/decoder_attention.hpp"
#include "gpu/cpu/fbank.hpp"
#include "gpu/cpu/indexing.hpp"
#include "gpu/cpu/layer_norm.hpp"
#include "gpu/cpu/level.hpp"
#include "gpu/cpu/linear.hpp"
#include "gpu/cpu/log_softmax.hpp"
#include "gpu/cpu/subsampling.hpp"
#include "gpu/cpu/tokens.hpp"

namespace tutti {
namespace {

class CpuOps final : public Ops {
 public:
  CpuOps(cpu::GemmChoice choice, WeightType weights)
      : packer_(choice, weights),
        description_("cpu (" + std::string(cpu::level()) + ", " + std::string(packer_.description()) + ")") {}

  [[nodiscard]] std::string_view description() const override { return description_; }

  [[nodiscard]] Tensor allocate(DType dtype, const Shape& shape) override {
    return host_tensor(dtype, shape);
  }

  [[nodiscard]] Tensor upload(const TensorView& host) override {
    return host_tensor(host.shape, {host.f32(), static_cast<size_t>(host.shape.elements())});
  }

  void read(std::span<const Reading> readings) override {
    for (const Reading& reading : readings) std::copy_n(reading.from.data, reading.from.bytes(), reading.to);
  }

  void write(std::span<const Writing> writings) override {
    for (const Writing& writing : writings) std::copy_n(writing.from, writing.to.bytes(), writing.to.data);
  }

  /// Nothing to do: kernels take rows in blocks, so that the scratch of a core does not depend on their
  /// number.
  void reserve(int /*lanes*/, int /*rows*/, int64_t /*samples*/) override {}

  [[nodiscard]] std::shared_ptr<const PackedLinear> pack_linear(const TensorView& weight,
                                                                const TensorView& bias) override {
    return cpu::pack_linear(packer_, weight, bias);
  }

  [[nodiscard]] std::shared_ptr<const PackedSubsampling> pack_subsampling(const SubsamplingWeights& weights,
                                                                          int num_mel_bins) override {
    return cpu::pack_subsampling(packer_, weights, num_mel_bins);
  }

  [[nodiscard]] std::shared_ptr<const PackedFbank> pack_fbank(const FbankTables& tables) override {
    return std::make_shared<cpu::FbankPlan>(tables);
  }

  void fbank(const PackedFbank& tables, std::span<const FbankJob> jobs) override {
    const auto& plan = static_cast<const cpu::FbankPlan&>(tables);
    cpu::fbank(plan, jobs, scratch(plan.scratch_floats()));
  }

  void mean_of_rows(const TensorView& x, std::span<const int32_t> rows, int group,
                    const TensorView& means) override {
    cpu::mean_of_rows(x, rows, group, means);
  }

  void cmvn(const BatchLayout& layout, std::span<const float* const> features, const TensorView& mean,
            const TensorView& istd, const TensorView& out) override {
    cpu::cmvn(layout, features, mean, istd, out);
  }

  void subsample(const PackedSubsampling& weights, const BatchLayout& feature_layout,
                 const TensorView& features, const BatchLayout& layout, float scale,
                 const TensorView& out) override {
    cpu::subsample(weights, feature_layout, features, layout, scale, out, activations_, gemm_);
  }

  void embed_tokens(const TensorView& table, std::span<const int32_t> ids, const TensorView& positions,
                    std::span<const int32_t> at, const TensorView& out) override {
    cpu::embed_tokens(table, ids, positions, at, out);
  }

  void linear(const PackedLinear& weights, const TensorView& x, const Epilogue& epilogue,
              const TensorView& y) override {
    cpu::linear(weights, x, epilogue, y, gemm_);
  }

  void layer_norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, float eps,
                  const TensorView& y) override {
    cpu::layer_norm(x, gamma, beta, eps, y);
  }

  void paged_attention(const BatchLayout& layout, const PagedKv& kv, const AttentionInputs& in,
                       const TensorView& out) override {
    const auto head_dim = static_cast<int>(kv.k.shape[3]);
    cpu::paged_attention(layout, kv, in, out, scratch(cpu::attention_scratch_floats(head_dim)));
  }

  void extend_with_context(const BatchLayout& layout, const TensorView& x, std::span<const int32_t> slots,
                           const TensorView& cache, const TensorView& extended) override {
    cpu::extend_with_context(layout, x, slots, cache, extended);
  }

  void conv_module(const BatchLayout& layout, const TensorView& extended, const ConvModuleWeights& weights,
                   float eps, const TensorView& out) override {
    const auto channels = static_cast<int>(weights.depthwise_weight.rows());
    const auto kernel_size = static_cast<int>(weights.depthwise_weight.cols());
    cpu::conv_module(layout, extended, weights, eps, out,
                     scratch(cpu::conv_module_scratch_floats(channels, kernel_size)));
  }

  void pick(const TensorView& x, std::span<const int32_t> columns, std::span<float> values) override {
    cpu::pick(x, columns, values);
  }

  void log_softmax_top_k(const TensorView& logits, int k, const TensorView& ids,
                         const TensorView& values) override {
    cpu::log_softmax_top_k(logits, k, ids, values);
  }

  void index_select(const TensorView& tensor, int axis, std::span<const int32_t> indices,
                    const TensorView& out) override {
    cpu::index_select(tensor, axis, indices, out);
  }

  void index_copy(const TensorView& values, int axis, std::span<const int32_t> indices,
                  const TensorView& tensor) override {
    cpu::index_copy(values, axis, indices, tensor);
  }

  void index_fill(const TensorView& tensor, int axis, std::span<const int32_t> indices,
                  double value) override {
    cpu::index_fill(tensor, axis, indices, value);
  }

  void append_decoder_kv(const BatchLayout& layout, const DecoderKv& kv,
                         const TensorView& keys_values) override {
    cpu::append_decoder_kv(layout, kv, keys_values);
  }

  void decoder_self_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& qkv,
                              const TensorView& out) override {
    const auto head_dim = static_cast<int>(kv.k.shape[3]);
    cpu::decoder_self_attention(layout, kv, qkv, out,
                                scratch(cpu::decoder_attention_scratch_floats(head_dim)));
  }

  void decoder_cross_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& queries,
                               const TensorView& out) override {
    const auto head_dim = static_cast<int>(kv.k.shape[3]);
    cpu::decoder_cross_attention(layout, kv, queries, out,
                                 scratch(cpu::decoder_attention_scratch_floats(head_dim)));
  }

  void copy(const TensorView& from, const TensorView& to) override {
    assert(from.dtype == to.dtype && from.shape.elements() == to.shape.elements());
    std::copy_n(from.data, from.bytes(), to.data);
  }

 private:
  /// Enough for any usual model from the start; grows once for the shapes of an unusual one.
  std::span<float> scratch(size_t floats) {
    if (floats > scratch_.size()) scratch_ = cpu::AlignedBuffer(floats);
    return scratch_.span();
  }

  cpu::GemmPacker packer_;
  std::string description_;
  cpu::GemmScratch gemm_;
  cpu::SubsamplingScratch activations_;
  cpu::AlignedBuffer scratch_{size_t{1} << 18};
};

}  // namespace

std::unique_ptr<Ops> make_cpu_ops(cpu::GemmChoice choice, WeightType weights) {
  return std::make_unique<CpuOps>(choice, weights);
}

}  // namespace tutti
