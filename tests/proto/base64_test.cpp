#include "proto/base64.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tutti::proto {
namespace {

std::optional<std::string> decoded(std::string_view text) {
  const auto bytes = decode_base64(text);
  if (!bytes) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

// RFC 4648 section 10.
TEST(Base64, DecodesTheVectorsOfItsStandard) {
  EXPECT_EQ(decoded(""), "");
  EXPECT_EQ(decoded("Zg=="), "f");
  EXPECT_EQ(decoded("Zm8="), "fo");
  EXPECT_EQ(decoded("Zm9v"), "foo");
  EXPECT_EQ(decoded("Zm9vYg=="), "foob");
  EXPECT_EQ(decoded("Zm9vYmE="), "fooba");
  EXPECT_EQ(decoded("Zm9vYmFy"), "foobar");
  EXPECT_EQ(decoded("+/8="), "\xFB\xFF");
}

TEST(Base64, DoesWithoutPadding) {
  EXPECT_EQ(decoded("Zg"), "f");
  EXPECT_EQ(decoded("Zm8"), "fo");
  EXPECT_EQ(decoded("Zm9vYmE"), "fooba");
}

TEST(Base64, RefusesWhatItIsNot) {
  for (const char* text : {"Z", "Zm9vY", "Zg=Z", "=", "====", "Zg===", " Zg==", "Zm 9v", "Zm9v\n", "Zm9-",
                           "Zm9_", "Zm9v-", "Zm8\xFF"}) {
    EXPECT_EQ(decoded(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tutti::proto
