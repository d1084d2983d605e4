#pragma once

namespace tutti::cuda {

/// Neighbours that memory gives or takes as one: up to 16 bytes.
template <class T, int n>
struct alignas(n * sizeof(T)) Vector {
  T values[n];
};

}  // namespace tutti::cuda
