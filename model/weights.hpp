#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/tensor.hpp"

namespace tutti {

/// Named tensors of somebody else's memory, in name order.
using TensorViewMap = std::map<std::string, TensorView, std::less<>>;

/// Named host tensors of one checkpoint. `take` hands out views and remembers which names were used.
class WeightMap {
 public:
  /// `origin` is the file's name for messages.
  explicit WeightMap(std::string origin) : origin_(std::move(origin)) {}

  void add(std::string name, Tensor tensor);
  /// A tensor in memory that `owner` keeps: nothing is copied.
  void add(std::string name, const TensorView& tensor, std::shared_ptr<const void> owner);
  [[nodiscard]] bool contains(std::string_view name) const;
  /// The tensor in f32; one that is stored as bf16 is widened when it is first taken. Throws SetupError,
  /// naming file, key, and the wanted and found shapes, when it is missing, of another type, or of another
  /// shape.
  [[nodiscard]] TensorView take(std::string_view name, const Shape& shape);
  /// As above for whatever shape it has.
  [[nodiscard]] TensorView take(std::string_view name);
  /// Marks a name as known without reading it.
  void ignore(std::string_view name);
  /// Names nobody took, sorted.
  [[nodiscard]] std::vector<std::string> unused() const;
  /// All tensors as they are held.
  [[nodiscard]] TensorViewMap views() const;
  [[nodiscard]] const std::string& origin() const { return origin_; }
  [[nodiscard]] size_t size() const { return tensors_.size(); }

 private:
  struct Held {
    TensorView view;
    std::shared_ptr<const void> owner;
  };
  [[nodiscard]] Held& find(std::string_view name);

  std::string origin_;
  std::map<std::string, Held, std::less<>> tensors_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace tutti
