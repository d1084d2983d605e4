#pragma once

#include <cstdint>
#include <string_view>

namespace tutti {

/// The word error rate's numerator and denominator, which add up over clips.
struct WordErrors {
  int64_t errors = 0;  ///< substitutions, deletions and insertions
  int64_t words = 0;   ///< of the reference

  WordErrors& operator+=(const WordErrors& other);
  /// errors / words; 0 without a reference.
  [[nodiscard]] double rate() const;
};

/// Levenshtein distance over words between spaces, whatever their ASCII case.
[[nodiscard]] WordErrors count_word_errors(std::string_view reference, std::string_view hypothesis);

}  // namespace tutti
