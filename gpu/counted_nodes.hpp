#pragma once

#include <cassert>
#include <cstdint>

#include "gpu/host_device.hpp"

namespace tutti {

/// Nodes of trees that share their roots, addressed by index and counted by reference: dropping the last
/// reference to a node frees it and drops its reference to its parent. Works on memory of the caller's, of
/// which it touches only what it has given out. `Node` has `int32_t parent` (-1 = none) and `int32_t
/// references`.
template <class Node>
class CountedNodes {
 public:
  static constexpr int32_t none = -1;

  /// Of `nodes`, `used` have been given out since `clear`, and those that came back are a list from
  /// `first_free` on.
  TUTTI_HOST_DEVICE CountedNodes(Node* nodes, [[maybe_unused]] int32_t capacity, int32_t& used,
                                 int32_t& first_free)
      : nodes_(nodes), capacity_(capacity), used_(used), first_free_(first_free) {}

  /// A node with one reference, the caller's, that takes over one reference to `node.parent`.
  [[nodiscard]] TUTTI_HOST_DEVICE int32_t add(Node node) {
    int32_t index = first_free_;
    if (index == none) {
      assert(used_ < capacity_);
      index = used_++;
    } else {
      first_free_ = nodes_[index].parent;
    }
    node.references = 1;
    nodes_[index] = node;
    return index;
  }
  TUTTI_HOST_DEVICE int32_t share(int32_t index) {
    if (index != none) ++nodes_[index].references;
    return index;
  }
  /// Calls `on_free(index)` for each node that goes, children before parents.
  template <class F>
  TUTTI_HOST_DEVICE void drop(int32_t index, F on_free) {
    while (index != none && --nodes_[index].references == 0) {
      on_free(index);
      const int32_t parent = nodes_[index].parent;
      nodes_[index].parent = first_free_;
      first_free_ = index;
      index = parent;
    }
  }
  TUTTI_HOST_DEVICE void drop(int32_t index) {
    drop(index, [](int32_t) {});
  }
  TUTTI_HOST_DEVICE void clear() {
    first_free_ = none;
    used_ = 0;
  }
  [[nodiscard]] TUTTI_HOST_DEVICE Node& operator[](int32_t index) { return nodes_[index]; }
  [[nodiscard]] TUTTI_HOST_DEVICE const Node& operator[](int32_t index) const { return nodes_[index]; }

 private:
  Node* nodes_;
  [[maybe_unused]] int32_t capacity_;
  int32_t& used_;
  int32_t& first_free_;
};

}  // namespace tutti
