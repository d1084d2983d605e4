#pragma once

#include <algorithm>
#include <cstdlib>

#include "gpu/cpu/indexing.hpp"
#include "gpu/ops.hpp"

namespace tutti {

/// Allocates, reads, copies and fills host memory. The caches compute nothing, so anything else is a failure
/// of the test.
class HostOps final : public Ops {
 public:
  std::string_view description() const override { return "host memory"; }
  Tensor allocate(DType dtype, const Shape& shape) override { return host_tensor(dtype, shape); }
  void read(std::span<const Reading> readings) override {
    for (const Reading& reading : readings) std::copy_n(reading.from.data, reading.from.bytes(), reading.to);
  }
  void write(std::span<const Writing> writings) override {
    for (const Writing& writing : writings) std::copy_n(writing.from, writing.to.bytes(), writing.to.data);
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
  void copy(const TensorView& from, const TensorView& to) override {
    std::copy_n(from.data, from.bytes(), to.data);
  }

  Tensor upload(const TensorView&) override { std::abort(); }
  void reserve(int, int, int64_t) override { std::abort(); }
  std::shared_ptr<const PackedLinear> pack_linear(const TensorView&, const TensorView&) override {
    std::abort();
  }
  std::shared_ptr<const PackedSubsampling> pack_subsampling(const SubsamplingWeights&, int) override {
    std::abort();
  }
  std::shared_ptr<const PackedFbank> pack_fbank(const FbankTables&) override { std::abort(); }
  void fbank(const PackedFbank&, std::span<const FbankJob>) override { std::abort(); }
  void mean_of_rows(const TensorView&, std::span<const int32_t>, int, const TensorView&) override {
    std::abort();
  }
  void cmvn(const BatchLayout&, std::span<const float* const>, const TensorView&, const TensorView&,
            const TensorView&) override {
    std::abort();
  }
  void subsample(const PackedSubsampling&, const BatchLayout&, const TensorView&, const BatchLayout&, float,
                 const TensorView&) override {
    std::abort();
  }
  void embed_tokens(const TensorView&, std::span<const int32_t>, const TensorView&, std::span<const int32_t>,
                    const TensorView&) override {
    std::abort();
  }
  void linear(const PackedLinear&, const TensorView&, const Epilogue&, const TensorView&) override {
    std::abort();
  }
  void layer_norm(const TensorView&, const TensorView&, const TensorView&, float,
                  const TensorView&) override {
    std::abort();
  }
  void paged_attention(const BatchLayout&, const PagedKv&, const AttentionInputs&,
                       const TensorView&) override {
    std::abort();
  }
  void extend_with_context(const BatchLayout&, const TensorView&, std::span<const int32_t>, const TensorView&,
                           const TensorView&) override {
    std::abort();
  }
  void conv_module(const BatchLayout&, const TensorView&, const ConvModuleWeights&, float,
                   const TensorView&) override {
    std::abort();
  }
  void pick(const TensorView&, std::span<const int32_t>, std::span<float>) override { std::abort(); }
  void log_softmax_top_k(const TensorView&, int, const TensorView&, const TensorView&) override {
    std::abort();
  }
  void append_decoder_kv(const BatchLayout&, const DecoderKv&, const TensorView&) override { std::abort(); }
  void decoder_self_attention(const BatchLayout&, const DecoderKv&, const TensorView&,
                              const TensorView&) override {
    std::abort();
  }
  void decoder_cross_attention(const BatchLayout&, const DecoderKv&, const TensorView&,
                               const TensorView&) override {
    std::abort();
  }
};

}  // namespace tutti
