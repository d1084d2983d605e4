#include "tests/gpu/cuda_host/memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>

#include "tests/gpu/cuda_host/kernel_fault.hpp"

namespace tutti::cuda::host {
namespace {

/// As much as cudaMalloc aligns to. As a float it is a NaN, as an index -1.
constexpr size_t zone = 256;
constexpr std::byte filler{0xFF};

// Owners on several threads share what one has packed.
std::mutex guard;
std::map<std::byte*, size_t> sizes;

bool untouched(const std::byte* from) {
  return std::all_of(from, from + zone, [](std::byte b) { return b == filler; });
}

void check(const std::byte* memory, size_t bytes) {
  for (const bool after : {false, true}) {
    if (untouched(after ? memory + bytes : memory - zone)) continue;
    throw KernelFault(std::string("a kernel wrote just ") + (after ? "after" : "before") + " memory of " +
                      std::to_string(bytes) + " bytes");
  }
}

}  // namespace

std::byte* allocate_guarded(size_t bytes) {
  const size_t rounded = (bytes + zone - 1) / zone * zone;
  auto* const start = static_cast<std::byte*>(std::aligned_alloc(zone, rounded + 2 * zone));
  if (start == nullptr) throw std::bad_alloc();
  std::memset(start, 0xFF, rounded + 2 * zone);
  std::memset(start + zone, 0, bytes);
  const std::lock_guard lock(guard);
  sizes.emplace(start + zone, bytes);
  return start + zone;
}

void release_guarded(std::byte* memory) {
  const std::lock_guard lock(guard);
  sizes.erase(memory);
  std::free(memory - zone);
}

void check_guards() {
  const std::lock_guard lock(guard);
  for (const auto& [memory, bytes] : sizes) check(memory, bytes);
}

}  // namespace tutti::cuda::host
