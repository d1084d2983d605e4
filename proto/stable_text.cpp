#include "proto/stable_text.hpp"

#include <algorithm>

namespace tutti::proto {
namespace {

/// The words that both begin with and that a further word follows in both: the last one may still grow.
std::string_view common_words(std::string_view a, std::string_view b) {
  const auto [end, other] = std::ranges::mismatch(a, b);
  const size_t space = a.substr(0, static_cast<size_t>(end - a.begin())).rfind(' ');
  return a.substr(0, space == std::string_view::npos ? 0 : space);
}

}  // namespace

std::string StableText::extend(std::string_view text) {
  const std::string_view common = common_words(last_, text);
  std::string added;
  if (common.size() > sent_.size() && common.starts_with(sent_)) {
    added = common.substr(sent_.size());
    sent_ += added;
  }
  last_ = text;
  return added;
}

std::string StableText::finish(std::string_view text) {
  std::string added;
  if (text.starts_with(sent_)) added = text.substr(sent_.size());
  *this = {};
  return added;
}

}  // namespace tutti::proto
