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

struct Block {
  size_t bytes;
  int device;
};

// Owners on several threads share what one has packed.
std::mutex guard;
std::map<const std::byte*, Block> blocks;

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

std::byte* allocate_guarded(int device, size_t bytes) {
  const size_t rounded = (bytes + zone - 1) / zone * zone;
  auto* const start = static_cast<std::byte*>(std::aligned_alloc(zone, rounded + 2 * zone));
  if (start == nullptr) throw std::bad_alloc();
  std::memset(start, 0xFF, rounded + 2 * zone);
  std::memset(start + zone, 0, bytes);
  const std::lock_guard lock(guard);
  blocks.emplace(start + zone, Block{bytes, device});
  return start + zone;
}

void release_guarded(std::byte* memory) {
  const std::lock_guard lock(guard);
  blocks.erase(memory);
  std::free(memory - zone);
}

void check_guards() {
  const std::lock_guard lock(guard);
  for (const auto& [memory, block] : blocks) check(memory, block.bytes);
}

std::optional<int> device_of(const void* address) {
  const auto* const byte = static_cast<const std::byte*>(address);
  const std::lock_guard lock(guard);
  auto after = blocks.upper_bound(byte);
  if (after == blocks.begin()) return std::nullopt;
  const auto& [memory, block] = *--after;
  if (byte >= memory + block.bytes) return std::nullopt;
  return block.device;
}

size_t allocated(int device) {
  const std::lock_guard lock(guard);
  size_t bytes = 0;
  for (const auto& [memory, block] : blocks) bytes += block.device == device ? block.bytes : 0;
  return bytes;
}

}  // namespace tutti::cuda::host
