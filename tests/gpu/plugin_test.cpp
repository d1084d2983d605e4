#include "gpu/plugin.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/cpu/layer_norm.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(CudaPlugin, SaysInOneLineThatALibraryIsMissing) {
  const Result<CudaPlugin> plugin = CudaPlugin::load("/nowhere/libtutti_cuda.so");
  ASSERT_FALSE(plugin.has_value());
  EXPECT_EQ(plugin.error().code, "cuda_plugin_missing");
  EXPECT_EQ(plugin.error().message, "no CUDA plugin: /nowhere/libtutti_cuda.so does not exist");
}

TEST(CudaPlugin, RefusesAFileThatIsNoLibrary) {
  const Result<CudaPlugin> plugin = CudaPlugin::load(TUTTI_TEST_DATA "/README.md");
  ASSERT_FALSE(plugin.has_value());
  EXPECT_EQ(plugin.error().code, "cuda_plugin_unusable");
  EXPECT_THAT(plugin.error().message, HasSubstr("README.md"));
}

TEST(CudaPlugin, RefusesALibraryWithoutItsEntryPoint) {
  const Result<CudaPlugin> plugin = CudaPlugin::load(TUTTI_OTHER_LIBRARY);
  ASSERT_FALSE(plugin.has_value());
  EXPECT_EQ(plugin.error().code, "cuda_plugin_unusable");
  EXPECT_THAT(plugin.error().message, HasSubstr("another version"));
}

#ifdef TUTTI_CUDA_PLUGIN
bool has_driver() { return dlopen("libcuda.so.1", RTLD_LAZY) != nullptr; }

TEST(CudaPlugin, NamesTheDriverWhereThereIsNone) {
  if (has_driver()) GTEST_SKIP() << "this machine has an NVIDIA driver";
  const Result<CudaPlugin> plugin = CudaPlugin::load(TUTTI_CUDA_PLUGIN);
  ASSERT_FALSE(plugin.has_value());
  EXPECT_EQ(plugin.error().code, "cuda_unavailable");
  EXPECT_THAT(plugin.error().message, HasSubstr("no NVIDIA driver"));
  EXPECT_THAT(plugin.error().message, Not(HasSubstr("\n")));
}

/// A host tensor's copy in device memory.
class DeviceCopy {
 public:
  DeviceCopy(const CudaPlugin& plugin, const TensorView& host) : api_(plugin.api()), bytes_(host.bytes()) {
    EXPECT_EQ(api_.allocate(0, bytes_, &memory_), 0);
    EXPECT_EQ(api_.upload(0, host.data, bytes_, memory_), 0);
  }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;
  ~DeviceCopy() { api_.release(0, memory_); }
  [[nodiscard]] float* f32() const { return static_cast<float*>(memory_); }
  void download(const TensorView& host) const { EXPECT_EQ(api_.download(0, memory_, bytes_, host.data), 0); }

 private:
  const cuda::PluginApi& api_;
  size_t bytes_;
  void* memory_ = nullptr;
};

TEST(CudaPlugin, ComputesLayerNormAsTheCpuDoes) {
  const Result<CudaPlugin> plugin = CudaPlugin::load(TUTTI_CUDA_PLUGIN);
  if (!plugin) GTEST_SKIP() << plugin.error().message;
  Random random(9);
  const Tensor x = random.tensor({37, 250}), gamma = random.tensor({250}), beta = random.tensor({250});
  const Tensor expected = host_tensor(DType::f32, x.shape());
  cpu::layer_norm(x, gamma, beta, 1e-5F, expected);

  const DeviceCopy rows(*plugin, x), scale(*plugin, gamma), shift(*plugin, beta);
  ASSERT_EQ(plugin->api().layer_norm(0, rows.f32(), 37, 250, scale.f32(), shift.f32(), 1e-5F, rows.f32()), 0);
  rows.download(x);
  const std::span<const float> cpu_values = Random::values(expected);
  EXPECT_TRUE(close_to(Random::values(x), std::vector<double>(cpu_values.begin(), cpu_values.end()), 4e-6));
}
#endif

}  // namespace
}  // namespace tutti
