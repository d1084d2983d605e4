#pragma once

#include <cstdint>
#include <set>
#include <source_location>
#include <stdexcept>
#include <string>
#include <tuple>

namespace tutti::cuda::host {

/// A kernel does what a GPU forbids, or what it would answer with an arbitrary result.
struct KernelFault : std::logic_error {
  using std::logic_error::logic_error;
};

/// A place in a kernel's source.
struct Site {
  enum class Kind { barrier, shared_index };
  Kind kind;
  std::string file;
  uint32_t line, column;
  auto operator<=>(const Site&) const = default;
};
[[nodiscard]] std::string to_string(const Site& site);
[[nodiscard]] std::string to_string(const std::source_location& where);

/// Mistakes made on purpose, to see that tests notice them. Of this thread.
class SeededFaults {
 public:
  /// From now on notes the sites that kernels pass.
  static void record();
  /// Stops noting them.
  [[nodiscard]] static std::set<Site> recorded();
  /// From now on leaves the barrier at the site out, or moves the index there by one.
  static void seed(const Site& site);
  static void clear();

  /// Called by each barrier and each access to shared memory.
  [[nodiscard]] static bool strikes(Site::Kind kind, const std::source_location& where) {
    return active_ && look(kind, where);
  }

 private:
  static bool look(Site::Kind kind, const std::source_location& where);
  static thread_local bool active_;
};

}  // namespace tutti::cuda::host
