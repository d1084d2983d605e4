#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/cpu/library_scope.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace {

thread_local int own_allocations = 0;
thread_local int library_allocations = 0;

void* counted(size_t bytes, size_t alignment) {
  ++(tutti::cpu::LibraryScope::active() ? library_allocations : own_allocations);
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<size_t>(alignment));
}
// Not inlined: seeing free() without the allocation behind new, the compiler would warn of a mismatch.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace tutti {
namespace {

struct Packing {
  std::string name;
  cpu::GemmChoice choice;
  WeightType weights = WeightType::fp32;
};

class CpuAllocations : public testing::TestWithParam<Packing> {};

std::vector<Packing> packings() {
  std::vector<Packing> all{{"Panel", cpu::GemmChoice::panel},
                           {"Int8", cpu::GemmChoice::automatic, WeightType::int8}};
#ifdef TUTTI_ONEDNN
  all.push_back({"Onednn", cpu::GemmChoice::onednn});
#endif
  return all;
}
INSTANTIATE_TEST_SUITE_P(Packings, CpuAllocations, testing::ValuesIn(packings()),
                         [](const auto& packing) { return packing.param.name; });

TEST_P(CpuAllocations, AreNoneOfOursInProductsAndSubsampling) {
  constexpr int d = 64;
  constexpr int rows = 15 + 16;
  Random random(1);
  const std::unique_ptr<Ops> ops = make_cpu_ops(GetParam().choice, GetParam().weights);
  ops->reserve(2, rows, 0);
  const auto packed = ops->pack_linear(random.tensor({300, d}), random.tensor({300}));
  const auto subsampling =
      ops->pack_subsampling({random.tensor({d, 1, 3, 3}), random.tensor({d}), random.tensor({d, d, 3, 3}),
                             random.tensor({d}), random.tensor({d, d * 19}), random.tensor({d})},
                            80);
  const Tensor features = random.tensor({67 + 63, 80});
  const std::vector<int32_t> feature_begin{0, 67, 67 + 63};
  const std::vector<int32_t> row_begin{0, 16, rows};
  const Tensor x = host_tensor(DType::f32, {rows, d});
  const Tensor y = host_tensor(DType::f32, {rows, 300});

  own_allocations = library_allocations = 0;
  ops->subsample(*subsampling, {feature_begin}, features, {row_begin}, 8.0F, x);
  ops->linear(*packed, x, {.activation = Activation::swish}, y);
  EXPECT_EQ(own_allocations, 0);
  if (GetParam().choice != cpu::GemmChoice::onednn)
    EXPECT_EQ(library_allocations, 0);
  else
    EXPECT_GT(library_allocations, 0) << "the library's allocations are not attributed to it";
}

TEST(CpuDecoderAllocations, AreNoneInAttentionWhateverTheFormat) {
  Random random(2);
  const std::unique_ptr<Ops> ops = make_cpu_ops(cpu::GemmChoice::panel);
  constexpr int head_dim = max_decoder_head_dim;
  const std::vector<int32_t> row_begin{0, 3};
  const std::vector<int32_t> table{1};
  const std::vector<int32_t> seqlens{2};
  const Tensor keys_values = random.tensor({3, 2 * head_dim});
  const Tensor qkv = random.tensor({3, 3 * head_dim});
  const Tensor queries = random.tensor({3, head_dim});
  const Tensor out = host_tensor(DType::f32, {3, head_dim});
  const Tensor scales = host_tensor(DType::f32, {2, 8, 1});
  for (const DType format : {DType::f32, DType::bf16, DType::f8e4m3}) {
    const Tensor k = host_tensor(format, {2, 8, 1, head_dim});
    const Tensor v = host_tensor(format, {2, 8, 1, head_dim});
    const DecoderKv kv{k, v, scales, scales, table, 1, seqlens};
    own_allocations = 0;
    ops->append_decoder_kv({row_begin}, kv, keys_values);
    ops->decoder_self_attention({row_begin}, kv, qkv, out);
    ops->decoder_cross_attention({row_begin}, kv, queries, out);
    ops->copy(k.view()[0], k.view()[1]);
    EXPECT_EQ(own_allocations, 0);
  }
}

}  // namespace
}  // namespace tutti
