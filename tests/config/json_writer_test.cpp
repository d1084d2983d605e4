#include "config/json_writer.hpp"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <bit>
#include <cmath>
#include <limits>
#include <locale>

#include "config/utf8.hpp"
#include "tests/config/random_bytes.hpp"

namespace tutti {
namespace {

std::string json_string(std::string_view value) {
  JsonWriter json;
  json.string(value);
  return std::move(json).take();
}

std::string json_decimal(double value) {
  JsonWriter json;
  json.decimal(value);
  return std::move(json).take();
}

TEST(JsonWriter, PutsCommasBetweenMembersAndElementsOnly) {
  JsonWriter json;
  json.begin_object().key("a").integer(-1).key("b").begin_array();
  json.integer(1).begin_object().end_object().begin_array().end_array().string("x").end_array();
  json.key("c").decimal(2).end_object();
  EXPECT_EQ(std::move(json).take(), R"({"a":-1,"b":[1,{},[],"x"],"c":2.00})");
}

TEST(JsonWriter, EscapesQuotesBackslashesAndControlCharacters) {
  EXPECT_EQ(json_string("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(json_string("\b\f\n\r\t"), R"("\b\f\n\r\t")");
  EXPECT_EQ(json_string(std::string_view("\0\x1f", 2)), R"("\u0000\u001f")");
}

TEST(JsonWriter, KeepsWellFormedUtf8) {
  const std::string text = "\x7f é 中 😀 \xF4\x8F\xBF\xBF";
  EXPECT_EQ(json_string(text), '"' + text + '"');
}

TEST(JsonWriter, ReplacesEachByteThatIsNotUtf8) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(json_string("a\xFFz"), "\"a" + bad + "z\"");
  EXPECT_EQ(json_string("\xC3"), '"' + bad + '"');                                // cut short
  EXPECT_EQ(json_string("\xC0\xAF"), '"' + bad + bad + '"');                      // overlong
  EXPECT_EQ(json_string("\xED\xA0\x80"), '"' + bad + bad + bad + '"');            // surrogate
  EXPECT_EQ(json_string("\xF4\x90\x80\x80"), '"' + bad + bad + bad + bad + '"');  // above U+10FFFF
  EXPECT_EQ(json_string("\xE4\xB8\"x"), '"' + bad + bad + "\\\"x\"");  // the quote is not swallowed
}

TEST(JsonWriter, WritesTwoDecimalsOrThreeWhereTheThirdCounts) {
  EXPECT_EQ(json_decimal(0), "0.00");
  EXPECT_EQ(json_decimal(0.32), "0.32");
  EXPECT_EQ(json_decimal(1.285), "1.285");
  EXPECT_EQ(json_decimal(12.3401), "12.34");
  EXPECT_EQ(json_decimal(0.9996), "1.00");
  EXPECT_EQ(json_decimal(-0.0004), "0.00");
  EXPECT_EQ(json_decimal(-1.5), "-1.50");
  EXPECT_EQ(json_decimal(86400.005), "86400.005");
}

TEST(JsonWriter, WritesNumbersJsonCannotHoldAsNumbersItCan) {
  EXPECT_EQ(json_decimal(std::nan("")), "0.00");
  EXPECT_EQ(json_decimal(std::numeric_limits<double>::infinity()), "0.00");
  EXPECT_EQ(json_decimal(1e300), "9000000000000.00");
}

TEST(JsonWriter, WritesFloatsThatReadBackAsThemselves) {
  const auto json_number = [](float value) {
    JsonWriter json;
    json.number(value);
    return std::move(json).take();
  };
  EXPECT_EQ(json_number(0.97F), "0.97");
  EXPECT_EQ(json_number(1e-5F), "1e-05");
  EXPECT_EQ(json_number(std::numeric_limits<float>::infinity()), "0");
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  simdjson::dom::parser parser;
  for (int i = 0; i < 1000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    double read = 0;
    ASSERT_EQ(parser.parse(json_number(value)).get(read), simdjson::SUCCESS) << value;
    ASSERT_EQ(static_cast<float>(read), value);
  }
}

TEST(JsonWriter, GivesEveryMemberItsLineWhenIndented) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().key("a").integer(1).key("b").begin_object().key("c").string("x").end_object();
  json.key("d").begin_array().end_array().key("e").begin_array().integer(1).integer(2).end_array();
  json.end_object();
  EXPECT_EQ(std::move(json).take(), R"({
  "a": 1,
  "b": {
    "c": "x"
  },
  "d": [],
  "e": [
    1,
    2
  ]
})");
}

TEST(JsonWriter, WritesDecimalPointsWhateverTheLocale) {
  struct CommaPoint : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new CommaPoint));
  EXPECT_EQ(json_decimal(1234.56), "1234.56");
  std::locale::global(before);
}

TEST(JsonWriter, WritesJsonThatAParserAcceptsWhateverTheBytes) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  simdjson::dom::parser parser;
  for (int i = 0; i < 3000; ++i) {
    JsonWriter json;
    json.begin_object().key(random_bytes(random, 20)).string(random_bytes(random, 60)).end_object();
    const std::string text = std::move(json).take();
    ASSERT_EQ(parser.parse(text).error(), simdjson::SUCCESS) << text;
  }
}

TEST(Utf8Prefix, CutsBetweenCharacters) {
  EXPECT_EQ(utf8_prefix("aé中", 3), "aé");
  EXPECT_EQ(utf8_prefix("aé中", 5), "aé");
  EXPECT_EQ(utf8_prefix("aé中", 6), "aé中");
  EXPECT_EQ(utf8_prefix("\xFF\xFF", 4), replacement_character);
}

}  // namespace
}  // namespace tutti
