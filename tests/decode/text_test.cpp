#include "decode/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tutti {
namespace {

std::vector<CtcToken> tokens_of(std::initializer_list<int32_t> ids) {
  std::vector<CtcToken> tokens;
  int32_t frame = 0;
  for (const int32_t id : ids) {
    tokens.push_back({.id = id, .first_frame = frame, .last_frame = frame + 1, .log_prob = -0.5F});
    frame += 3;
  }
  return tokens;
}

std::string text_of(const TokenTable& table, std::initializer_list<int32_t> ids) {
  std::string text = "what was there before";
  table.write_text(tokens_of(ids), text);
  return text;
}

std::vector<std::string> words_of(const TokenTable& table, std::initializer_list<int32_t> ids) {
  std::vector<Word> words;
  words.resize(table.write_words(tokens_of(ids), words));
  std::vector<std::string> spellings;
  for (const Word& word : words) spellings.push_back(word.text);
  return spellings;
}

const TokenTable characters({"<blank>", "<unk>", "▁", "A", "B", "<sos/eos>"});
const TokenTable pieces({"<blank>", "▁HE", "LLO", "▁WORLD", "▁"});
const TokenTable ideographs({"<blank>", "<unk>", "你", "好", "a", "b"});

using testing::ElementsAre;

TEST(TokenTable, SpellsCharactersWithTheWordMarkAsASpace) {
  EXPECT_EQ(text_of(characters, {3, 4, 2, 4}), "AB B");
  EXPECT_THAT(words_of(characters, {3, 4, 2, 4}), ElementsAre("AB", "B"));
}

TEST(TokenTable, SpacesAtTheEdgesAndInARowAreNotWritten) {
  EXPECT_EQ(text_of(characters, {2, 3, 2, 2, 4, 2}), "A B");
  EXPECT_THAT(words_of(characters, {2, 3, 2, 2, 4, 2}), ElementsAre("A", "B"));
}

TEST(TokenTable, JoinsPiecesOfAWord) {
  EXPECT_EQ(text_of(pieces, {1, 2, 3}), "HELLO WORLD");
  EXPECT_THAT(words_of(pieces, {1, 2, 3}), ElementsAre("HELLO", "WORLD"));
}

TEST(TokenTable, EachIdeographIsAWordWrittenWithoutSpaces) {
  EXPECT_EQ(text_of(ideographs, {2, 3, 4, 5, 2}), "你好ab你");
  EXPECT_THAT(words_of(ideographs, {2, 3, 4, 5, 2}), ElementsAre("你", "好", "ab", "你"));
}

TEST(TokenTable, MarksAreSilentAndUnknownIsShown) { EXPECT_EQ(text_of(characters, {5, 3, 1}), "A<unk>"); }

TEST(TokenTable, WordsLieOnTheFramesOfTheirTokensAndAverageTheirConfidence) {
  std::vector<Word> words;
  const std::vector<CtcToken> tokens = {
      {3, 4, 5, -0.1F}, {4, 7, 9, -0.3F}, {2, 10, 10, -2.0F}, {4, 12, 12, 0.0F}};
  ASSERT_EQ(characters.write_words(tokens, words), 2U);
  EXPECT_EQ(words[0].first_frame, 4);
  EXPECT_EQ(words[0].last_frame, 9);
  EXPECT_FLOAT_EQ(words[0].confidence, std::exp(-0.2F));
  EXPECT_EQ(words[1].first_frame, 12);
  EXPECT_FLOAT_EQ(words[1].confidence, 1.0F);
}

TEST(TokenTable, NothingIsWrittenForNoTokens) {
  EXPECT_EQ(text_of(pieces, {}), "");
  EXPECT_TRUE(words_of(pieces, {}).empty());
  EXPECT_TRUE(words_of(pieces, {4}).empty());
}

}  // namespace
}  // namespace tutti
