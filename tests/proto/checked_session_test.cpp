#include "tests/proto/checked_session.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "tests/config/broken_rule.hpp"

namespace tutti::proto {
namespace {

using Answer = std::function<void(Actions& actions)>;

/// Answers each text with what the test wants.
class Scripted final : public Dialect {
 public:
  explicit Scripted(Answer answer) : answer_(std::move(answer)) {}
  void on_text(std::string_view /*message*/, Actions& actions) override { answer_(actions); }
  void on_binary(std::span<const std::byte> /*bytes*/, bool /*ends*/, Actions& /*actions*/) override {}
  void on_event(int /*track*/, const ServerEvent& event, Actions& actions) override {
    if (std::holds_alternative<Done>(event)) actions.emplace_back(Close{});
  }
  void on_fault(const Error& /*error*/, Actions& /*actions*/) override {}

 private:
  Answer answer_;
};

CheckedSession session_that(Answer answer) {
  return {std::make_unique<Scripted>(std::move(answer)), SessionRules{}};
}

struct Fault {
  const char* name;
  void (*answer)(Actions& actions);
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class FaultyDialect : public testing::TestWithParam<Fault> {};

TEST_P(FaultyDialect, IsFound) {
  CheckedSession session = session_that(GetParam().answer);
  EXPECT_THROW(session.text("x"), BrokenRule);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, FaultyDialect,
    testing::Values(
        Fault{"SpeaksAfterClose",
              [](Actions& actions) {
                actions.emplace_back(Close{});
                actions.emplace_back(Reply{"{}"});
              }},
        Fault{"RepliesWithHalfAnObject", [](Actions& actions) { actions.emplace_back(Reply{"{"}); }},
        Fault{"RepliesWithLatin1", [](Actions& actions) { actions.emplace_back(Reply{"\"\xE4\""}); }},
        Fault{"RepliesWithNothing", [](Actions& actions) { actions.emplace_back(Reply{""}); }},
        Fault{"OpensATrackTwice",
              [](Actions& actions) {
                actions.emplace_back(OpenTrack{});
                actions.emplace_back(OpenTrack{});
              }},
        Fault{"OpensTooManyTracks",
              [](Actions& actions) {
                for (int i = 0; i <= max_tracks; ++i) actions.emplace_back(OpenTrack{i, {}});
              }},
        Fault{"InventsAudio",
              [](Actions& actions) {
                actions.emplace_back(TrackAudio{0, std::vector<std::byte>(2)});
              }},
        Fault{"DoesAHundredThings",
              [](Actions& actions) {
                for (int i = 0; i < 100; ++i) actions.emplace_back(FinalizeTrack{0});
              }},
        Fault{"Throws", [](Actions& /*actions*/) { throw BrokenRule("no message makes it throw"); }}),
    [](const auto& fault) { return fault.param.name; });

TEST(CheckedSession, AnswersWhatItsTracksWereAsked) {
  CheckedSession session = session_that([](Actions& actions) {
    actions.emplace_back(OpenTrack{});
    actions.emplace_back(FinalizeTrack{0});
    actions.emplace_back(EndTrack{0});
  });
  session.text("x");
  session.say(0, Done{});
  EXPECT_FALSE(session.closed()) << "its finals have not come";
  session.say(0, Final{.text = {}, .words = {}, .reason = "eof"});
  EXPECT_EQ(session.tracks().at(0).finalizes, 1) << "before the last final comes that of the finalize";
  session.catch_up();
  EXPECT_TRUE(session.closed());
}

}  // namespace
}  // namespace tutti::proto
