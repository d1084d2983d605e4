#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

// A message of the log may begin with fields, NAME=VALUE each and a space behind it. What is said about a
// session has its name there, so that its lines are found by programs as well.

/// "session=NAME ", with which every message about that session begins.
[[nodiscard]] std::string about(std::string_view session);
/// "session=NAME track=TRACK ".
[[nodiscard]] std::string about(std::string_view session, int track);

struct LogLine {
  std::vector<std::pair<std::string_view, std::string_view>> fields;
  std::string_view message;  ///< the rest
};

/// Takes a message apart; the parts lie within it.
[[nodiscard]] LogLine read_log_line(std::string_view text);

}  // namespace tutti
