#include "proto/json_message.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tutti::proto {
namespace {

/// An object in which that many brackets are open at once, its own among them.
std::string nested(size_t depth) {
  return "{\"x\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
}

std::string code_of(const std::string& text, size_t max_bytes) {
  const auto message = JsonMessage::parse(text, max_bytes);
  return message ? "" : message.error().code;
}

TEST(JsonMessage, MayBeSoDeepAndNoDeeper) {
  ASSERT_EQ(max_json_depth, 16U);
  EXPECT_EQ(code_of(nested(15), 1000), "");
  EXPECT_EQ(code_of(nested(17), 1000), "bad_json");
  EXPECT_EQ(code_of(nested(400000), 1 << 20), "bad_json") << "nor is the stack used up";
}

TEST(JsonMessage, MayBeSoLongAndNoLonger) {
  const std::string text = R"({"type":"eof","x":")" + std::string(1000, 'x') + "\"}";
  EXPECT_EQ(code_of(text, text.size()), "");
  EXPECT_EQ(code_of(text, text.size() - 1), "bad_message");
}

}  // namespace
}  // namespace tutti::proto
