#include <gtest/gtest.h>

#include <iterator>
#include <random>

#include "tests/config/broken_rule.hpp"
#include "tests/config/random_bytes.hpp"
#include "tests/proto/checked_session.hpp"
#include "tests/proto/conversation.hpp"

namespace tutti::proto {
namespace {

/// A client and a recognizer that both say whatever comes to their mind.
class Tormentor {
 public:
  Tormentor(CheckedSession& session, const Vocabulary& vocabulary, std::mt19937& random)
      : session_(session), vocabulary_(vocabulary), random_(random) {}

  void torment(int steps) {
    session_.open();
    for (int i = 0; i < steps && !session_.closed(); ++i) step();
  }

 private:
  int pick(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }

  void step() {
    const int choice = pick(10);
    if (choice < 4) {
      session_.text(text());
    } else if (choice < 6) {
      const std::string noise = random_bytes(random_, 400);
      session_.binary(std::as_bytes(std::span(noise)), pick(4) != 0);
    } else if (choice < 9) {
      recognize();
    } else if (pick(8) == 0) {
      session_.idle();
    }
  }

  /// A true message, one with some bytes changed, cut or doubled, or noise.
  std::string text() {
    std::string message =
        vocabulary_.messages[static_cast<size_t>(pick(static_cast<int>(vocabulary_.messages.size())))];
    switch (pick(4)) {
      case 0:
        for (int i = pick(4); i >= 0 && !message.empty(); --i) {
          message[static_cast<size_t>(pick(static_cast<int>(message.size())))] = static_cast<char>(pick(256));
        }
        return message;
      case 1:
        return message.substr(0, static_cast<size_t>(pick(static_cast<int>(message.size()) + 1)));
      case 2:
        return pick(3) == 0 ? random_bytes(random_, 80) : message;
      default:
        return message;
    }
  }

  void recognize() {
    if (session_.tracks().empty()) return;
    auto entry = session_.tracks().begin();
    std::advance(entry, pick(static_cast<int>(session_.tracks().size())));
    const int index = entry->first;
    const CheckedSession::Track& track = entry->second;
    if (track.finalizes > 0) return session_.say(index, final(track, "finalize"));
    if (track.said_last) return session_.say(index, Done{.audio_seconds = 1.5});
    if (track.ending) return session_.say(index, final(track, "eof"));
    switch (pick(6)) {
      case 0:
        return session_.say(index, SpeechStarted{.time = 0.5});
      case 1:
        return session_.say(index, SpeechStopped{.time = 0.9});
      case 2:
        return session_.say(index,
                            Partial{.segment = track.segment, .text = words(), .start = 0.1, .end = 0.4});
      case 3:
        return session_.say(index, final(track, pick(2) == 0 ? "endpoint" : "length"));
      case 4:
        return session_.hear(index, track.audio);
      default:
        if (pick(20) != 0) return;
        return session_.say(index, ErrorEvent{.error = {"recognition_failed", "it failed"}, .fatal = true});
    }
  }

  Final final(const CheckedSession::Track& track, std::string reason) {
    Final event{.segment = track.segment,
                .text = words(),
                .start = 0.1,
                .end = 0.8,
                .confidence = 0.5F,
                .has_words = true,
                .words = {},
                .reason = std::move(reason)};
    if (!event.text.empty()) event.words = {{"A", 0.1, 0.2, 0.5F}, {"\"\xFF", 0.3, 0.8, 0.5F}};
    return event;
  }

  std::string words() { return pick(3) == 0 ? "" : pick(2) == 0 ? "A" : "A \"\xFF"; }

  CheckedSession& session_;
  const Vocabulary& vocabulary_;
  std::mt19937& random_;
};

}  // namespace

void torture(AcceptFunction accept, const Vocabulary& vocabulary, unsigned seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 300; ++i) {
    const auto& target = vocabulary.targets[static_cast<size_t>(i) % vocabulary.targets.size()];
    Acceptance acceptance = accept(test_handshake(target));
    ASSERT_TRUE(std::holds_alternative<Accepted>(acceptance)) << target;
    CheckedSession session(std::move(std::get<Accepted>(acceptance).dialect),
                           {.replies_are_json = vocabulary.replies_are_json,
                            .fills_gaps = vocabulary.fills_gaps,
                            .has_frames = vocabulary.has_frames});
    ASSERT_NO_THROW(Tormentor(session, vocabulary, random).torment(60));
  }
}

}  // namespace tutti::proto
