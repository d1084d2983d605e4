#include "gpu/plugin.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>

namespace tutti {
namespace {

constexpr const char* library_name = "libtutti_cuda.so";

std::filesystem::path executable_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

// RTLD_NODELETE: the CUDA runtime inside keeps threads and exit handlers that must outlive any handle.
void* open_library(const std::string& path) {
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

Result<void*> load_file(const std::string& path) {
  if (void* library = open_library(path)) return library;
  return fail("cuda_plugin_unusable", fmt::format("CUDA plugin {} does not load: {}", path, dlerror()));
}

Result<void*> find_library(const std::string& path) {
  const auto exists = [](const std::filesystem::path& file) {
    std::error_code error;
    return std::filesystem::exists(file, error);
  };
  if (!path.empty()) {
    if (exists(path)) return load_file(path);
    return fail("cuda_plugin_missing", fmt::format("no CUDA plugin: {} does not exist", path));
  }
  // As it is built, and as it is installed.
  const std::filesystem::path beside = executable_folder();
  const std::filesystem::path installed = beside.parent_path() / "lib/tutti";
  for (const std::filesystem::path& folder : {beside, installed}) {
    if (exists(folder / library_name)) return load_file(folder / library_name);
  }
  if (void* library = open_library(library_name)) return library;
  return fail("cuda_plugin_missing",
              fmt::format("no CUDA plugin: {} is neither in {} nor in {} nor in the library path",
                          library_name, beside.string(), installed.string()));
}

}  // namespace

Result<CudaPlugin> CudaPlugin::load(const std::string& path) {
  const Result<void*> library = find_library(path);
  if (!library) return tl::unexpected<Error>(library.error());
  const auto entry = reinterpret_cast<cuda::PluginEntry>(dlsym(*library, cuda::plugin_entry_name));
  const cuda::PluginApi* api = entry != nullptr ? entry(cuda::plugin_abi_version) : nullptr;
  if (api == nullptr) {
    return fail(
        "cuda_plugin_unusable",
        fmt::format("the CUDA plugin does not offer interface version {}: it belongs to another version "
                    "of this program",
                    cuda::plugin_abi_version));
  }
  std::array<char, 256> reason{};
  const int devices = api->device_count(reason.data(), reason.size());
  if (devices < 1) return fail("cuda_unavailable", fmt::format("no CUDA GPU: {}", reason.data()));
  return CudaPlugin(*api, devices);
}

}  // namespace tutti
