#include "decode/state_memory.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

namespace tutti {
namespace {

using Used = std::array<int32_t, CtcStateLayout::most_lists>;

Used used_of(std::span<const std::byte> head) {
  Used used{};
  if (head.size() < sizeof(used)) throw std::invalid_argument("a decoder state ends too early");
  std::memcpy(used.data(), head.data(), sizeof(used));
  return used;
}

}  // namespace

StateMemory::StateMemory(const CtcStateLayout& layout)
    : layout_(layout),
      memory_(std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(layout.bytes))) {}

std::vector<std::byte> StateMemory::save() const {
  const Used used = used_of({data(), static_cast<size_t>(layout_.head_bytes)});
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<size_t>(used_bytes(layout_, used.data())));
  for_each_used_part(layout_, used.data(), [&](int64_t offset, int64_t count) {
    bytes.insert(bytes.end(), data() + offset, data() + offset + count);
  });
  return bytes;
}

void StateMemory::load(std::span<const std::byte> bytes) {
  const Used used = used_of(bytes);
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i] < 0 || used[i] > layout_.lists[i].capacity) {
      throw std::invalid_argument("a decoder state is larger than this decoder's");
    }
  }
  if (std::ssize(bytes) != used_bytes(layout_, used.data())) {
    throw std::invalid_argument("a decoder state ends too early");
  }
  for_each_used_part(layout_, used.data(), [&](int64_t offset, int64_t count) {
    const auto part = bytes.first(static_cast<size_t>(count));
    std::ranges::copy(part, data() + offset);
    bytes = bytes.subspan(part.size());
  });
}

}  // namespace tutti
