#pragma once

#include <cstdlib>
#include <iostream>

namespace tutti {

/// Whether long tests are to be short here: AddressSanitizer makes a model ten times slower. `make nightly`
/// sets TUTTI_LONG_TESTS, and has the whole of them all the same.
inline bool is_in_a_hurry() {
#ifdef __SANITIZE_ADDRESS__
  return std::getenv("TUTTI_LONG_TESTS") == nullptr;
#else
  return false;
#endif
}

/// `usual`, or `hurried` where is_in_a_hurry, which the test says.
template <class T>
T unless_in_a_hurry(T usual, T hurried) {
  if (!is_in_a_hurry()) return usual;
  std::cout << "shortened under AddressSanitizer: " << hurried << " instead of " << usual << '\n';
  return hurried;
}

}  // namespace tutti
