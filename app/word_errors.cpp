#include "app/word_errors.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace tutti {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ' ' || c == '\t' || c == '\n') {
      if (!words.back().empty()) words.emplace_back();
    } else {
      words.back() += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

}  // namespace

WordErrors& WordErrors::operator+=(const WordErrors& other) {
  errors += other.errors;
  words += other.words;
  return *this;
}

double WordErrors::rate() const {
  return words == 0 ? 0.0 : static_cast<double>(errors) / static_cast<double>(words);
}

WordErrors count_word_errors(std::string_view reference, std::string_view hypothesis) {
  const std::vector<std::string> wanted = words_of(reference);
  const std::vector<std::string> heard = words_of(hypothesis);
  std::vector<int64_t> row(heard.size() +
                           1);  // distances from a prefix of `wanted` to each prefix of `heard`
  for (size_t j = 0; j < row.size(); ++j) row[j] = static_cast<int64_t>(j);
  for (const std::string& word : wanted) {
    int64_t diagonal = row[0]++;
    for (size_t j = 0; j < heard.size(); ++j) {
      const int64_t replaced = diagonal + (word == heard[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return {.errors = row.back(), .words = static_cast<int64_t>(wanted.size())};
}

}  // namespace tutti
