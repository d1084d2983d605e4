#include "decode/text.hpp"

#include <cmath>

namespace tutti {

namespace {

constexpr std::string_view word_mark = "\u2581";

// The first code point of a UTF-8 string, or 0 for one that is malformed.
char32_t first_code_point(std::string_view s) {
  if (s.empty()) return 0;
  const auto lead = static_cast<unsigned char>(s[0]);
  const int length = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 0;
  if (length == 0 || s.size() < static_cast<size_t>(length)) return 0;
  char32_t code = length == 1 ? lead : lead & (0x7FU >> length);
  for (int i = 1; i < length; ++i) code = (code << 6U) | (static_cast<unsigned char>(s[i]) & 0x3FU);
  return code;
}

// Scripts written without spaces: CJK ideographs, kana, and their extensions.
bool stands_alone(std::string_view unit) {
  const char32_t c = first_code_point(unit);
  return (c >= 0x3040 && c <= 0x30FF) || (c >= 0x3400 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x20000 && c <= 0x3FFFF);
}

bool is_mark(std::string_view unit) { return unit.size() > 2 && unit.front() == '<' && unit.back() == '>'; }

}  // namespace

TokenTable::TokenTable(std::vector<std::string> units) : units_(std::move(units)) {
  roles_.reserve(units_.size());
  for (std::string& unit : units_) {
    if (unit == word_mark || unit == "<space>") {
      roles_.push_back(Role::space);
      unit.clear();
    } else if (unit.starts_with(word_mark)) {
      roles_.push_back(Role::word_start);
      unit.erase(0, word_mark.size());
    } else if (is_mark(unit) && unit != "<unk>") {
      roles_.push_back(Role::silent);
    } else {
      roles_.push_back(stands_alone(unit) ? Role::word_alone : Role::text);
    }
  }
}

void TokenTable::write_text(std::span<const CtcToken> tokens, std::string& text) const {
  text.clear();
  bool space_due = false;
  for (const CtcToken& token : tokens) {
    const auto id = static_cast<size_t>(token.id);
    const Role role = roles_[id];
    if (role == Role::silent) continue;
    if (role == Role::space || role == Role::word_start) space_due = true;
    if (units_[id].empty()) continue;
    if (space_due && !text.empty()) text += ' ';
    space_due = false;
    text += units_[id];
  }
}

size_t TokenTable::write_words(std::span<const CtcToken> tokens, std::vector<Word>& words) const {
  size_t count = 0;
  bool open = false;
  int pieces = 0;
  const auto close = [&] {
    if (open)
      words[count - 1].confidence = std::exp(words[count - 1].confidence / static_cast<float>(pieces));
    open = false;
  };
  for (const CtcToken& token : tokens) {
    const auto id = static_cast<size_t>(token.id);
    const Role role = roles_[id];
    if (role == Role::silent) continue;
    if (role != Role::text) close();
    if (units_[id].empty()) continue;
    if (!open) {
      if (count == words.size()) words.emplace_back();
      Word& word = words[count++];
      word.text.clear();
      word.first_frame = token.first_frame;
      word.confidence = 0;
      pieces = 0;
      open = true;
    }
    Word& word = words[count - 1];
    word.text += units_[id];
    word.last_frame = token.last_frame;
    word.confidence += token.log_prob;
    ++pieces;
    if (role == Role::word_alone) close();
  }
  close();
  return count;
}

}  // namespace tutti
