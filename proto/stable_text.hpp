#pragma once

#include <string>
#include <string_view>

namespace tutti::proto {

/// A growing text for readers who can only append: of a hypothesis that may still change, the words that two
/// in a row agree on.
class StableText {
 public:
  /// What may be appended now that the text so far is `text`; often empty.
  [[nodiscard]] std::string extend(std::string_view text);
  /// What completes the text to `text`; empty when what was appended already differs from it.
  [[nodiscard]] std::string finish(std::string_view text);

 private:
  std::string sent_;
  std::string last_;
};

}  // namespace tutti::proto
