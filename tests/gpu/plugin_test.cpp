#include "gpu/plugin.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>

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

TEST(GpuCheck, SaysInOneLineThatThereIsNoDriverAndFails) {
  if (has_driver()) GTEST_SKIP() << "this machine has an NVIDIA driver";
  FILE* const check = popen(TUTTI_GPU_CHECK " 2>&1", "r");
  ASSERT_NE(check, nullptr);
  std::array<char, 1000> said{};
  const size_t length = std::fread(said.data(), 1, said.size() - 1, check);
  EXPECT_NE(pclose(check), 0);
  EXPECT_EQ(std::string(said.data(), length),
            "gpu_check: no NVIDIA driver is installed (libcuda.so.1 was not found)\n");
}
#endif

}  // namespace
}  // namespace tutti
