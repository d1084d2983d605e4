// Every barrier of every kernel is left out once, and every index into shared memory moved by one: had a
// kernel been written so, would the tests notice?
#include <gtest/gtest.h>

#include <optional>

#include "gpu/cuda/cuda_ops.hpp"
#include "tests/gpu/cuda_host/api.hpp"
#include "tests/gpu/cuda_host/kernel_fault.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace tutti {
namespace {

using cuda::host::KernelFault;
using cuda::host::SeededFaults;
using cuda::host::Site;
using Outputs = std::vector<float>;

struct Kernel {
  std::string name;
  std::function<Outputs(Ops&)> run;
  cuda::MatrixType type = cuda::MatrixType::f32;
};

Outputs download(Ops& ops, const TensorView& tensor) {
  Outputs values(static_cast<size_t>(tensor.shape.elements()));
  ops.download(tensor, values);
  return values;
}

Outputs log_softmax(Ops& ops) {
  Random random(1);
  const Tensor logits = ops.upload(random.tensor({2, 300}));
  const Tensor ids = ops.allocate(DType::i32, {2, 3});
  const Tensor values = ops.allocate(DType::f32, {2, 3});
  ops.log_softmax_top_k(logits, 3, ids, values);
  return download(ops, logits);
}

Outputs conv_module(Ops& ops) {
  Random random(2);
  constexpr int channels = 70, taps = 3;
  const Tensor extended = ops.upload(random.tensor({3 + taps - 1, 2 * channels}));
  const Tensor weight = ops.upload(random.tensor({channels, taps}));
  const Tensor bias = ops.upload(random.tensor({channels}));
  const Tensor scale = ops.upload(random.tensor({channels}));
  const Tensor shift = ops.upload(random.tensor({channels}));
  const Tensor out = ops.allocate(DType::f32, {3, channels});
  const std::vector<int32_t> row_begin{0, 3};
  ops.conv_module({row_begin}, extended, {weight, bias, scale, shift, false}, 1e-5F, out);
  return download(ops, out);
}

Outputs fbank(Ops& ops) {
  Random random(4);
  FbankOptions options;
  options.sample_rate = 8000;
  options.num_mel_bins = 20;
  const Tensor samples = random.tensor({options.frame_length()});
  const auto tables = ops.pack_fbank(FbankTables(options));
  const Tensor out = ops.allocate(DType::f32, {1, 20});
  const FbankJob job{samples.view().f32(), 1, out.view().f32()};
  ops.fbank(*tables, {&job, 1});
  return download(ops, out);
}

Outputs prefix_search(Ops& ops) {
  Random random(5);
  constexpr int rows = 3, beam = 4, tokens = 10;
  const Tensor logits = ops.upload(random.tensor({rows, tokens}));
  const Tensor ids = ops.allocate(DType::i32, {rows, beam});
  const Tensor values = ops.allocate(DType::f32, {rows, beam});
  const Tensor best_ids = ops.allocate(DType::i32, {rows, 1});
  const Tensor best_values = ops.allocate(DType::f32, {rows, 1});
  ops.log_softmax_top_k(logits, beam, ids, values);
  const auto search = ops.make_ctc_search({.blank_id = 0, .beam = beam, .max_tokens = rows}, 1);
  const CtcSearchLane lane{.state = 0, .first_row = 0, .rows = rows, .restart = 1};
  search->search({&lane, 1}, ids, values, best_ids, best_values);
  Outputs out = download(ops, best_values);
  for (const CtcToken& token : search->best(0)) out.push_back(token.log_prob);
  return out;
}

/// `in` is more than a step of any type.
Outputs product(Ops& ops, int in) {
  Random random(3);
  const auto packed = ops.pack_linear(random.tensor({70, in}), random.tensor({70}));
  const Tensor x = ops.upload(random.tensor({66, in}));
  const Tensor y = ops.allocate(DType::f32, {66, 70});
  ops.linear(*packed, x, {}, y);
  return download(ops, y);
}

Outputs gemm(Ops& ops) { return product(ops, 70); }
/// Of rows that are loaded four values at a time.
Outputs gemm_of_quads(Ops& ops) { return product(ops, 72); }

/// The kernel's outputs, or nothing when it was seen to be wrong. A new Ops for each run: a fault leaves the
/// old one unusable.
std::optional<Outputs> run(const Kernel& kernel) {
  const std::unique_ptr<Ops> ops = make_cuda_ops(cuda::host::api(), 0, kernel.type);
  try {
    return kernel.run(*ops);
  } catch (const KernelFault&) {
    return std::nullopt;
  }
}

class SeededFault : public testing::TestWithParam<Kernel> {
 protected:
  void TearDown() override { SeededFaults::clear(); }
};

TEST_P(SeededFault, ShowsWhicheverBarrierOrIndexItSpoils) {
  SeededFaults::record();
  const std::optional<Outputs> right = run(GetParam());
  const std::set<Site> sites = SeededFaults::recorded();
  ASSERT_TRUE(right.has_value());
  int barriers = 0;
  for (const Site& site : sites) {
    barriers += site.kind == Site::Kind::barrier ? 1 : 0;
    SeededFaults::seed(site);
    const std::optional<Outputs> spoilt = run(GetParam());
    EXPECT_FALSE(spoilt && same_bits(*spoilt, *right)) << to_string(site);
  }
  EXPECT_GT(barriers, 0);
  EXPECT_GT(static_cast<int>(sites.size()), barriers);
}

INSTANTIATE_TEST_SUITE_P(Kernels, SeededFault,
                         testing::Values(Kernel{"LogSoftmax", log_softmax}, Kernel{"ConvModule", conv_module},
                                         Kernel{"Fbank", fbank}, Kernel{"PrefixSearch", prefix_search},
                                         Kernel{"Gemm", gemm}, Kernel{"GemmOfQuads", gemm_of_quads},
                                         Kernel{"GemmBf16", gemm, cuda::MatrixType::bf16},
                                         Kernel{"GemmF16", gemm_of_quads, cuda::MatrixType::f16},
                                         Kernel{"GemmF8", gemm, cuda::MatrixType::f8e4m3},
                                         Kernel{"GemmInt8", gemm, cuda::MatrixType::int8}),
                         [](const auto& kernel) { return kernel.param.name; });

}  // namespace
}  // namespace tutti
