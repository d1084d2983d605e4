#include "config/toml_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "config/result.hpp"

namespace tutti {
namespace {

/// Goes through the strings and comments of TOML 1.0 (sections Comment and String), and what is around them.
class TomlScanner {
 public:
  explicit TomlScanner(std::string_view text) : text_(text) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // a mark of the encoding
  }

  /// Where a character that is not ASCII stands outside of both, which only they may have; npos = nowhere.
  [[nodiscard]] size_t find_stray() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) >= 0x80) return at_;
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '"' || c == '\'') {
        skip_string(c);
      } else {
        ++at_;
      }
    }
    return std::string_view::npos;
  }

 private:
  [[nodiscard]] bool has_three(char quote) const { return text_.substr(at_, 3) == std::string(3, quote); }

  void skip_string(char quote) {
    const bool is_multiline = has_three(quote);
    at_ += is_multiline ? 3 : 1;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\' && quote == '"') {
        at_ += 2;
      } else if (is_multiline ? has_three(quote) : c == quote) {
        return end_string(quote, is_multiline);
      } else if (c == '\n' && !is_multiline) {
        return;  // an error, which is reported as one
      } else {
        ++at_;
      }
    }
  }

  /// Up to two quotes before those that end a string of several lines are its own.
  void end_string(char quote, bool is_multiline) {
    at_ += is_multiline ? 3 : 1;
    for (int i = 0; is_multiline && i < 2 && at_ < text_.size() && text_[at_] == quote; ++i) ++at_;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

toml::table parse_toml_file(const std::string& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  // A directory opens, and reads as an empty file.
  if (!file || std::filesystem::is_directory(path)) {
    throw SetupError(
        fmt::format("cannot read {}: {}", path, file ? "it is a directory" : std::strerror(errno)));
  }
  text << file.rdbuf();
  const std::string read = text.str();
  // Where toml++ 3.3 meets one of these, anything may happen.
  if (const size_t stray = TomlScanner(read).find_stray(); stray != std::string::npos) {
    throw SetupError(fmt::format(
        "{}:{}: a character that is not ASCII; those may stand in strings (\"...\") and comments (#) only",
        path, 1 + std::count(read.begin(), read.begin() + static_cast<std::ptrdiff_t>(stray), '\n')));
  }
  try {
    return toml::parse(read);
  } catch (const toml::parse_error& error) {
    throw SetupError(fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
  }
}

}  // namespace tutti
