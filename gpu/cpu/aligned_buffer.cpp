#include "gpu/cpu/aligned_buffer.hpp"

#include <sys/mman.h>

namespace tutti::cpu {

AlignedMemory allocate_aligned(size_t bytes, Pages pages) {
  constexpr size_t cache_line = 64;
  constexpr size_t huge_page = size_t{1} << 21;
  const bool huge = pages == Pages::huge && bytes >= huge_page;
  const auto alignment = static_cast<std::align_val_t>(huge ? huge_page : cache_line);
  AlignedMemory memory(::operator new(bytes, alignment), {alignment});
  // What does not fill a page stays in small ones. A system that does not take the advice is as correct.
  if (huge) (void)madvise(memory.get(), bytes / huge_page * huge_page, MADV_HUGEPAGE);
  return memory;
}

}  // namespace tutti::cpu
