#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define TUTTI_COUNTS_BYTES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TUTTI_COUNTS_BYTES 1
#endif
#endif

#ifdef TUTTI_COUNTS_BYTES
// Of <sanitizer/allocator_interface.h>, which GCC does not have.
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#else
#include <malloc.h>
#endif

namespace tutti::fuzz {

/// How far live_bytes is off: the C library counts what it keeps for the next allocations as in use.
#ifdef TUTTI_COUNTS_BYTES
inline constexpr size_t live_bytes_error = 0;
#else
inline constexpr size_t live_bytes_error = 8192;
#endif

/// Bytes of the heap that are in use.
inline size_t live_bytes() {
#ifdef TUTTI_COUNTS_BYTES
  return __sanitizer_get_current_allocated_bytes();
#else
  return mallinfo2().uordblks;
#endif
}

}  // namespace tutti::fuzz
