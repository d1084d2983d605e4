#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/ctc_decoder.hpp"

namespace tutti {

/// One word of a transcript, on the frames of its tokens.
struct Word {
  std::string text;
  int32_t first_frame = 0;
  int32_t last_frame = 0;
  float confidence = 0;  ///< exp of the mean of its tokens' log probabilities, in [0, 1]
};

/// Turns token ids into text. "▁" (U+2581) and "<space>" begin a word; a vocabulary without either is one of
/// plain characters, where every CJK character is a word by itself and other characters join. Tokens written
/// <like this> (blank, sos, eos, noise marks) are silent, except <unk>, which is shown.
class TokenTable {
 public:
  /// units[id] is the token's spelling.
  explicit TokenTable(std::vector<std::string> units);

  [[nodiscard]] int size() const { return static_cast<int>(units_.size()); }
  [[nodiscard]] std::string_view operator[](int32_t id) const { return units_[static_cast<size_t>(id)]; }

  /// Replaces `text`; allocates only when the capacity does not suffice.
  void write_text(std::span<const CtcToken> tokens, std::string& text) const;
  /// Replaces the first entries of `words` and returns how many there are; entries beyond keep their
  /// capacity.
  size_t write_words(std::span<const CtcToken> tokens, std::vector<Word>& words) const;

 private:
  enum class Role : uint8_t { silent, text, space, word_start, word_alone };
  std::vector<std::string> units_;  // spelling without the word mark
  std::vector<Role> roles_;
};

}  // namespace tutti
