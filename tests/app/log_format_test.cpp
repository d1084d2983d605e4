#include "app/log_format.hpp"

#include <gmock/gmock.h>
#include <spdlog/details/log_msg.h>

#include <chrono>
#include <string>

#include "config/log_line.hpp"

namespace tutti {
namespace {

std::string formatted(const std::string& message, const std::string& format = "text") {
  spdlog::memory_buf_t out;
  const std::chrono::system_clock::time_point time{std::chrono::milliseconds(1700000000042)};
  log_formatter(format)->format(
      spdlog::details::log_msg(time, {}, "tutti", spdlog::level::info, {message.data(), message.size()}),
      out);
  return {out.data(), out.size()};
}

TEST(LogFormat, IsTimeLevelAndMessage) {
  EXPECT_THAT(formatted("listening"), testing::MatchesRegex("....-..-..T..:..:..\\.042 info listening\n"));
}

TEST(LogFormat, KeepsAMessageOnOneLineWithoutControlCharacters) {
  EXPECT_THAT(formatted("a\nb\r\tc\x1b[31md\x7f"
                        "e"),
              testing::EndsWith(" info a b  c [31md e\n"));
  EXPECT_THAT(formatted("\xc2\x9b"
                        "2J \xff \xc3\xa9"),
              testing::EndsWith(" info  2J \xef\xbf\xbd \xc3\xa9\n"));
}

TEST(LogFormat, HasWhomAMessageIsAboutInFrontOfIt) {
  EXPECT_THAT(formatted(about("1a-2b", 1) + "opened"),
              testing::EndsWith(" info session=1a-2b track=1 opened\n"));
}

TEST(LogFormatOfJson, IsAnObjectALineWithTimeLevelFieldsAndMessage) {
  EXPECT_EQ(formatted("listening on 127.0.0.1:80", "json"),
            R"({"time":"2023-11-14T22:13:20.042Z","level":"info","message":"listening on 127.0.0.1:80"})"
            "\n");
  EXPECT_EQ(formatted(about("1a-2b", 1) + "code=owner_lost ended: it said \"no\"", "json"),
            R"({"time":"2023-11-14T22:13:20.042Z","level":"info","session":"1a-2b","track":"1",)"
            R"("code":"owner_lost","message":"ended: it said \"no\""})"
            "\n");
}

TEST(LogFormatOfJson, KeepsWhatClientsChoseInTheMessage) {
  EXPECT_THAT(formatted(about("1a") + "is x\",\"level\":\"critical\nsession=2b \x1b[2J\xff", "json"),
              testing::EndsWith(R"("session":"1a","message":"is x\",\"level\":\"critical session=2b  [2J)"
                                "\xef\xbf\xbd\"}\n"));
}

TEST(LogLine, HasOnlyTheFieldsThatItBeginsWith) {
  const auto names = [](std::string_view text) {
    std::string all;
    for (const auto& [name, value] : read_log_line(text).fields)
      all.append(name).append(":").append(value).append(";");
    return all + std::string(read_log_line(text).message);
  };
  EXPECT_EQ(names("session=a track=0 b=c ended d=e f"), "session:a;track:0;b:c;ended d=e f");
  EXPECT_EQ(names("ended session=a b"), "ended session=a b");
  EXPECT_EQ(names("Upper=a =b c"), "Upper=a =b c");
  EXPECT_EQ(names("session=a"), "session=a") << "there is no message";
  EXPECT_EQ(names(""), "");
}

}  // namespace
}  // namespace tutti
