#include <gtest/gtest.h>

#include <random>

#include "proto/sherpa.hpp"
#include "proto/vosk.hpp"
#include "proto/wenet.hpp"
#include "tests/proto/conversation.hpp"

namespace tutti::proto {
namespace {

/// The dialects of other recognition servers.
struct ServerDialect {
  const char* name;
  AcceptFunction accept;
  Vocabulary vocabulary;
};

void PrintTo(const ServerDialect& dialect, std::ostream* out) { *out << dialect.name; }

class ServerConversation : public testing::TestWithParam<ServerDialect> {};

TEST_P(ServerConversation, GoesAsWritten) {
  const std::string script = read_conversation(GetParam().name);
  EXPECT_EQ(replay(script, GetParam().accept), script);
}

TEST_P(ServerConversation, SurvivesAnyClient) {
  torture(GetParam().accept, GetParam().vocabulary, std::random_device{}());
}

INSTANTIATE_TEST_SUITE_P(
    Dialects, ServerConversation,
    testing::Values(
        ServerDialect{"vosk",
                      accept_vosk,
                      {.targets = {"/vosk"},
                       .messages = {R"({"config":{"sample_rate":16000,"words":true,"max_alternatives":2}})",
                                    R"({"config" : {"sample_rate" : 8000.0, "words" : 0}})",
                                    R"({"reset" : 1})", R"({"eof":1})"}}},
        ServerDialect{"wenet",
                      accept_wenet,
                      {.targets = {"/wenet"},
                       .messages = {R"({"signal":"start","nbest":1,"continuous_decoding":true})",
                                    R"({"signal":"start"})", R"({"signal":"end"})"}}},
        ServerDialect{"sherpa",
                      accept_sherpa,
                      {.targets = {"/sherpa"}, .messages = {"Done", "Hello"}, .replies_are_json = false}}),
    [](const auto& dialect) { return dialect.param.name; });

/// As many replies as audio messages, however a client sends them.
TEST(Vosk, RepliesOnceToEveryAudioMessage) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  auto acceptance = accept_vosk(test_handshake("/vosk"));
  const auto dialect = std::move(std::get<Accepted>(acceptance).dialect);
  size_t replies = 0;
  const auto count = [&](const Actions& actions) {
    for (const Action& action : actions) replies += std::holds_alternative<Reply>(action) ? 1 : 0;
  };
  size_t messages = 0;
  int64_t sent = 0;
  int64_t heard = 0;
  for (int i = 0; i < 5000; ++i) {
    Actions actions;
    if (random() % 2 == 0) {
      const std::vector<std::byte> bytes(random() % 3 == 0 ? 0 : random() % 1000);
      const bool ends_message = random() % 4 != 0;
      sent += static_cast<int64_t>(bytes.size());
      messages += ends_message ? 1 : 0;
      dialect->on_binary(bytes, ends_message, actions);
    } else if (random() % 3 == 0) {
      dialect->on_event(0, Final{.text = "word", .words = {}, .reason = "endpoint"}, actions);
    } else if (heard < sent) {
      heard += 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(sent - heard));
      dialect->on_heard(0, heard, actions);
    }
    count(actions);
    ASSERT_LE(replies, messages);
  }
  Actions actions;
  dialect->on_heard(0, sent, actions);
  count(actions);
  EXPECT_EQ(replies, messages);
}

}  // namespace
}  // namespace tutti::proto
