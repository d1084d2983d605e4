#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "decode/state_bytes.hpp"

namespace tutti {

/// Nodes of trees that share their roots, addressed by index and counted by reference: dropping the last
/// reference to a node frees it and drops its reference to its parent. Holds a fixed number of nodes; memory
/// that was never used is never touched. `Node` has `int32_t parent` (-1 = none) and `int32_t references`.
template <class Node>
class CountedPool {
 public:
  static constexpr int32_t none = -1;

  explicit CountedPool(int32_t capacity)
      : capacity_(capacity), nodes_(allocate(static_cast<size_t>(capacity))) {}

  /// A node with one reference, the caller's, that takes over one reference to `node.parent`.
  [[nodiscard]] int32_t add(Node node) {
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
  int32_t share(int32_t index) {
    if (index != none) ++nodes_[index].references;
    return index;
  }
  /// Calls `on_free(index)` for each node that goes, children before parents.
  template <class F>
  void drop(int32_t index, F&& on_free) {
    while (index != none && --nodes_[index].references == 0) {
      on_free(index);
      const int32_t parent = nodes_[index].parent;
      nodes_[index].parent = first_free_;
      first_free_ = index;
      index = parent;
    }
  }
  void drop(int32_t index) {
    drop(index, [](int32_t) {});
  }
  void clear() {
    first_free_ = none;
    used_ = 0;
  }
  /// Every node there ever was since clear(), at its index.
  void save(StateWriter& out) const {
    out.list(std::span<const Node>(nodes_.get(), static_cast<size_t>(used_)));
    out.value(first_free_);
  }
  /// Throws std::invalid_argument when there are more than this pool holds.
  void load(StateReader& in) {
    std::vector<Node> nodes;
    in.list(nodes);
    if (nodes.size() > static_cast<size_t>(capacity_)) {
      throw std::invalid_argument("a decoder state is larger than this decoder's");
    }
    std::copy(nodes.begin(), nodes.end(), nodes_.get());
    used_ = static_cast<int32_t>(nodes.size());
    first_free_ = in.value<int32_t>();
  }
  [[nodiscard]] Node& operator[](int32_t index) { return nodes_[index]; }
  [[nodiscard]] const Node& operator[](int32_t index) const { return nodes_[index]; }

 private:
  static_assert(std::is_aggregate_v<Node> && std::is_trivially_copyable_v<Node>,
                "nodes come into being by assignment to memory that no constructor has touched");

  struct Release {
    size_t count = 0;
    void operator()(Node* nodes) const { std::allocator<Node>().deallocate(nodes, count); }
  };
  using Nodes = std::unique_ptr<Node[], Release>;
  [[nodiscard]] static Nodes allocate(size_t count) {
    return {std::allocator<Node>().allocate(count), {count}};
  }

  int32_t capacity_;
  Nodes nodes_;
  int32_t first_free_ = none;
  int32_t used_ = 0;
};

}  // namespace tutti
