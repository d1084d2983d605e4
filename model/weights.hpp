#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/tensor.hpp"

namespace tutti {

/// Named host tensors of one checkpoint. `take` hands out views and remembers which names were used.
class WeightMap {
 public:
  /// `origin` is the file's name for messages.
  explicit WeightMap(std::string origin) : origin_(std::move(origin)) {}

  void add(std::string name, Tensor tensor);
  [[nodiscard]] bool contains(std::string_view name) const;
  /// Throws SetupError, naming file, key, and the wanted and found shapes, when the tensor is missing, not
  /// f32, or of another shape.
  [[nodiscard]] TensorView take(std::string_view name, const Shape& shape);
  /// As above for whatever shape it has.
  [[nodiscard]] TensorView take(std::string_view name);
  /// Marks a name as known without reading it.
  void ignore(std::string_view name);
  /// Names nobody took, sorted.
  [[nodiscard]] std::vector<std::string> unused() const;
  [[nodiscard]] const std::string& origin() const { return origin_; }
  [[nodiscard]] size_t size() const { return tensors_.size(); }

 private:
  std::string origin_;
  std::map<std::string, Tensor, std::less<>> tensors_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace tutti
