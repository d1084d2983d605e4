#include "app/word_errors.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

int64_t errors(std::string_view reference, std::string_view hypothesis) {
  return count_word_errors(reference, hypothesis).errors;
}

TEST(WordErrors, CountsSubstitutionsDeletionsAndInsertions) {
  EXPECT_EQ(errors("A B C", "A B C"), 0);
  EXPECT_EQ(errors("A B C", "A X C"), 1);
  EXPECT_EQ(errors("A B C", "A C"), 1);
  EXPECT_EQ(errors("A B C", "A B B C"), 1);
  EXPECT_EQ(errors("A B C", ""), 3);
  EXPECT_EQ(errors("", "A B"), 2);
  EXPECT_EQ(errors("A B C D", "B C D A"), 2);
}

TEST(WordErrors, IgnoresCaseAndSpacing) { EXPECT_EQ(errors(" Hello  world ", "hello WORLD\n"), 0); }

TEST(WordErrors, AddUpOverClips) {
  WordErrors sum;
  EXPECT_EQ(sum.rate(), 0);
  sum += count_word_errors("A B C", "A B X");
  sum += count_word_errors("D", "D");
  EXPECT_EQ(sum.words, 4);
  EXPECT_DOUBLE_EQ(sum.rate(), 0.25);
}

}  // namespace
}  // namespace tutti
