#include "app/log_format.hpp"

#include <gmock/gmock.h>
#include <spdlog/details/log_msg.h>

#include <string>

namespace tutti {
namespace {

std::string formatted(const std::string& message) {
  spdlog::memory_buf_t out;
  log_formatter()->format(
      spdlog::details::log_msg("tutti", spdlog::level::info, {message.data(), message.size()}), out);
  return {out.data(), out.size()};
}

TEST(LogFormat, IsTimeLevelAndMessage) {
  EXPECT_THAT(formatted("listening"), testing::MatchesRegex("....-..-..T..:..:..\\.... info listening\n"));
}

TEST(LogFormat, KeepsAMessageOnOneLineWithoutControlCharacters) {
  EXPECT_THAT(formatted("a\nb\r\tc\x1b[31md\x7f"
                        "e"),
              testing::EndsWith(" info a b  c [31md e\n"));
  EXPECT_THAT(formatted("\xc2\x9b"
                        "2J \xff \xc3\xa9"),
              testing::EndsWith(" info  2J \xef\xbf\xbd \xc3\xa9\n"));
}

}  // namespace
}  // namespace tutti
