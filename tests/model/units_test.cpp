#include "model/units.hpp"

#include <gmock/gmock.h>

#include "config/result.hpp"
#include "tests/config/temp_directory.hpp"

namespace tutti {
namespace {

using test::TempDirectory;
using ::testing::ElementsAre;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

class Units : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> load(std::string_view text) const {
    return load_units(directory_.write("units.txt", text));
  }
  void expect_refused(std::string_view text, const std::string& why) const {
    EXPECT_THAT([&] { (void)load(text); },
                ThrowsMessage<SetupError>(StrEq((directory_.path() / "units.txt").string() + ": " + why)));
  }

  TempDirectory directory_;
};

TEST_F(Units, ReadsTokensById) {
  EXPECT_THAT(load("<blank> 0\n\xe2\x96\x81 2\n\xe4\xb8\xad 1\n"),
              ElementsAre("<blank>", "\xe4\xb8\xad", "\xe2\x96\x81"));
}

TEST_F(Units, ReadsTabsCarriageReturnsAndALastLineWithoutEnd) {
  EXPECT_THAT(load("a\t0\r\nb 1\r\nc 2"), ElementsAre("a", "b", "c"));
}

TEST_F(Units, ReadsTokensWithSpacesAndBlankLinesAtTheEnd) {
  EXPECT_THAT(load("a b 0\n  1\n\n\n"), ElementsAre("a b", " "));
}

TEST_F(Units, RefusesMalformedLines) {
  expect_refused("a 0\nb\n", "line 2: \"token id\" is expected");
  expect_refused("a 0\n\nb 1\n", "line 2: \"token id\" is expected");
  expect_refused("a 0\nb x\n", "line 2: \"token id\" is expected");
  expect_refused("a 0\nb -1\n", "line 2: \"token id\" is expected");
  expect_refused("a 0\nb 1x\n", "line 2: \"token id\" is expected");
  expect_refused("a 0\nb 99999999999999999999\n", "line 2: \"token id\" is expected");
  expect_refused(" 0\n", "line 1: \"token id\" is expected");
  expect_refused("", "holds no units");
}

TEST_F(Units, RefusesIdsThatAreNotEachOnce) {
  expect_refused("a 0\nb 0\n", "line 2: id 0 appears twice");
  expect_refused("a 0\nb 2\n", "line 2: id 2 is not below the number of units, 2");
}

TEST_F(Units, RefusesTokensThatAreNotUtf8) {
  expect_refused("a 0\n\xff\xfe 1\n", "line 2: the token is not UTF-8");
}

}  // namespace
}  // namespace tutti
