#pragma once

namespace tutti::cpu {

/// On while this thread is inside oneDNN, so that whoever counts allocations can tell the library's from
/// ours.
class LibraryScope {
 public:
  LibraryScope() { ++depth; }
  ~LibraryScope() { --depth; }
  LibraryScope(const LibraryScope&) = delete;
  LibraryScope& operator=(const LibraryScope&) = delete;
  [[nodiscard]] static bool active() { return depth > 0; }

 private:
  static inline thread_local int depth = 0;
};

}  // namespace tutti::cpu
