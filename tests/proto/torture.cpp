#include <gtest/gtest.h>
#include <simdjson.h>

#include <map>
#include <random>

#include "tests/config/random_bytes.hpp"
#include "tests/proto/conversation.hpp"

namespace tutti::proto {
namespace {

/// One conversation, with a recognizer that obeys the dialect's actions and says random things in between.
class Victim {
 public:
  Victim(std::unique_ptr<Dialect> dialect, const Vocabulary& vocabulary, std::mt19937& random)
      : dialect_(std::move(dialect)), vocabulary_(vocabulary), random_(random) {}

  void live(int steps) {
    call([&](Actions& actions) { dialect_->on_open(actions); }, 0);
    for (int i = 0; i < steps && !closed_ && !testing::Test::HasFatalFailure(); ++i) step();
  }

 private:
  struct Track {
    bool ended = false;
    int finalizes = 0;  // asked for and not answered
    int segment = 0;
    int64_t audio = 0;
    int64_t heard = 0;
  };

  int pick(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }

  void step() {
    const int choice = pick(10);
    if (choice < 4) {
      const std::string message = text();
      call([&](Actions& actions) { dialect_->on_text(message, actions); }, message.size());
    } else if (choice < 6) {
      const std::string noise = random_bytes(random_, 400);
      const auto bytes = std::as_bytes(std::span(noise));
      const bool is_last = pick(4) != 0;
      call([&](Actions& actions) { dialect_->on_binary(bytes, is_last, actions); }, bytes.size());
    } else if (choice < 9) {
      recognize();
    } else if (pick(8) == 0) {
      call([&](Actions& actions) { dialect_->on_idle(actions); }, 0);
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
    if (tracks_.empty()) return;
    auto entry = tracks_.begin();
    std::advance(entry, pick(static_cast<int>(tracks_.size())));
    const int index = entry->first;
    Track& track = entry->second;
    if (track.finalizes > 0) {
      --track.finalizes;
      return tell(index, final(track, "finalize"));
    }
    if (track.ended) {
      tell(index, final(track, "eof"));
      tracks_.erase(index);
      return tell(index, Done{.audio_seconds = 1.5});
    }
    switch (pick(6)) {
      case 0:
        return tell(index, SpeechStarted{.time = 0.5});
      case 1:
        return tell(index, SpeechStopped{.time = 0.9});
      case 2:
        return tell(index, Partial{.segment = track.segment, .text = words(), .start = 0.1, .end = 0.4});
      case 3:
        return tell(index, final(track, pick(2) == 0 ? "endpoint" : "length"));
      case 4:
        track.heard = track.audio;
        return call([&, heard = track.heard](Actions& actions) { dialect_->on_heard(index, heard, actions); },
                    0);
      default:
        if (pick(20) != 0) return;
        tracks_.erase(index);
        return tell(index, ErrorEvent{.error = {"recognition_failed", "it failed"}, .fatal = true});
    }
  }

  Final final(Track& track, std::string reason) {
    Final event{.segment = track.segment++,
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

  void tell(int index, ServerEvent event) {
    call([&](Actions& actions) { dialect_->on_event(index, event, actions); }, 0);
  }

  template <class Call>
  void call(Call what, size_t input_bytes) {
    if (closed_) return;
    Actions actions;
    ASSERT_NO_THROW(what(actions));
    size_t audio_bytes = 0;
    for (const Action& action : actions) {
      if (closed_) return;
      obey(action, audio_bytes);
    }
    // What was held back may come with a later message, but all in all there is no more than was sent.
    sent_bytes_ += input_bytes;
    carried_bytes_ += audio_bytes;
    ASSERT_TRUE(vocabulary_.fills_gaps || carried_bytes_ <= sent_bytes_);
  }

  void obey(const Action& action, size_t& audio_bytes) {
    if (const auto* open = std::get_if<OpenTrack>(&action)) {
      ASSERT_FALSE(tracks_.contains(open->track));
      tracks_[open->track] = {};
      ASSERT_LE(tracks_.size(), static_cast<size_t>(max_tracks));
      ASSERT_GE(open->request.format.channels, 1);
    } else if (const auto* audio = std::get_if<TrackAudio>(&action)) {
      audio_bytes += audio->bytes.size();
      if (tracks_.contains(audio->track))
        tracks_[audio->track].audio += static_cast<int64_t>(audio->bytes.size());
    } else if (const auto* end = std::get_if<EndTrack>(&action)) {
      if (tracks_.contains(end->track)) tracks_[end->track].ended = true;
    } else if (const auto* finalize = std::get_if<FinalizeTrack>(&action)) {
      const auto track = tracks_.find(finalize->track);
      if (track != tracks_.end() && !track->second.ended) ++track->second.finalizes;
    } else if (const auto* reply = std::get_if<Reply>(&action)) {
      ASSERT_FALSE(reply->text.empty());
      if (!vocabulary_.replies_are_json) return;
      simdjson::dom::parser parser;
      ASSERT_EQ(parser.parse(reply->text).error(), simdjson::SUCCESS) << reply->text;
    } else if (std::holds_alternative<Close>(action)) {
      closed_ = true;
    }
  }

  std::unique_ptr<Dialect> dialect_;
  const Vocabulary& vocabulary_;
  std::mt19937& random_;
  std::map<int, Track> tracks_;
  size_t sent_bytes_ = 0;
  size_t carried_bytes_ = 0;
  bool closed_ = false;
};

}  // namespace

void torture(AcceptFunction accept, const Vocabulary& vocabulary, unsigned seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 300; ++i) {
    const auto& target = vocabulary.targets[static_cast<size_t>(i) % vocabulary.targets.size()];
    Acceptance acceptance = accept(test_handshake(target));
    ASSERT_TRUE(std::holds_alternative<Accepted>(acceptance)) << target;
    Victim(std::move(std::get<Accepted>(acceptance).dialect), vocabulary, random).live(60);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace tutti::proto
