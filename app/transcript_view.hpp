#pragma once

#include <string>
#include <string_view>

namespace tutti {

/// How a transcript looks while it grows: what to write for each event. On a terminal the open segment is one
/// dim line, rewritten in place, and a final takes its place as a line with its time; elsewhere only finals
/// are written, as plain lines. Control characters in the text never reach the terminal.
class TranscriptView {
 public:
  /// `columns` of the terminal; not used elsewhere.
  TranscriptView(bool terminal, int columns) : terminal_(terminal), columns_(columns) {}

  [[nodiscard]] std::string partial(std::string_view text);
  /// Empty finals are not shown. `start` in seconds.
  [[nodiscard]] std::string final(std::string_view text, double start);
  /// Takes the open segment away, so that something else can be written.
  [[nodiscard]] std::string clear();

 private:
  bool terminal_;
  int columns_;
  bool open_ = false;
};

/// The end of `text` that fits `columns`, after "…" where something was left out. A character from beyond
/// U+10FF counts as two columns: some are narrower, but none wider.
[[nodiscard]] std::string fit_end(std::string_view text, int columns);

/// "1:02.40", or "1:00:02.40" from an hour on.
[[nodiscard]] std::string clock_time(double seconds);

}  // namespace tutti
