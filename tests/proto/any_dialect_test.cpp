#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <functional>
#include <map>
#include <random>
#include <string>

#include "proto/dialects.hpp"
#include "tests/config/random_bytes.hpp"
#include "tests/proto/checked_session.hpp"
#include "tests/proto/conversation.hpp"

// What holds in every dialect, whatever its messages look like.

namespace tutti::proto {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

/// How a client of a dialect says what all have to say.
struct Client {
  std::string name;
  std::string target;
  std::vector<std::string> opening = {};
  std::string audio_format =
      {};                ///< a text message with `{}` for the audio in base64; empty = binary messages
  std::string end = {};  ///< a text message; empty = there is none
  int tracks = 1;        ///< which the audio is interleaved for
  int sample_bytes = 2;
  int sample_rate = 8000;  ///< 0 = the model's
  std::string commit = {};
  std::string committed = {};  ///< what the reply to an accepted commit has; empty = there is none
  std::vector<std::string> terminals = {};  ///< of which the one reply that ends a commit has one
};
void PrintTo(const Client& client, std::ostream* out) { *out << client.name; }

std::string audiohook(int seq, const std::string& type, const std::string& parameters) {
  return R"({"version":"2","id":"e160e428-53b2-487c-977d-96989bf5c99d","type":")" + type + R"(","seq":)" +
         std::to_string(seq) + R"(,"serverseq":0,"position":"PT0S","parameters":)" + parameters + "}";
}

const std::vector<Client>& clients() {
  static const std::vector<Client> all = {
      {.name = "native",
       .target = "/v1/stream?sample_rate=8000",
       .end = R"({"type":"eof"})",
       .commit = R"({"type":"finalize"})",
       .terminals = {R"("reason":"finalize")"}},
      {.name = "vosk",
       .target = "/vosk",
       .opening = {R"({"config":{"sample_rate":8000}})"},
       .end = R"({"eof":1})",
       .commit = R"({"reset":1})",
       .terminals = {R"("text":")"}},
      {.name = "wenet",
       .target = "/wenet",
       .opening = {R"({"signal":"start","continuous_decoding":true})"},
       .end = R"({"signal":"end"})",
       .sample_rate = 16000},
      {.name = "sherpa", .target = "/sherpa", .end = "Done", .sample_bytes = 4, .sample_rate = 0},
      {.name = "deepgram",
       .target = "/v1/listen?encoding=linear16&sample_rate=8000&channels=2&multichannel=true",
       .end = R"({"type":"CloseStream"})",
       .tracks = 2,
       .commit = R"({"type":"Finalize"})",
       .terminals = {R"("from_finalize":true)"}},
      {.name = "openai",
       .target = "/v1/realtime?intent=transcription",
       .opening = {R"({"type":"session.update","session":{"audio":{"input":{"format":{"type":"audio/pcm",)"
                   R"("rate":8000},"turn_detection":null}}}})"},
       .audio_format = R"({"type":"input_audio_buffer.append","audio":"{}"})",
       .commit = R"({"type":"input_audio_buffer.commit"})",
       .committed = R"("input_audio_buffer.committed")",
       .terminals = {R"("conversation.item.input_audio_transcription.completed")",
                     R"("conversation.item.input_audio_transcription.failed")"}},
      {.name = "twilio",
       .target = "/twilio",
       .opening = {R"({"event":"start","start":{"mediaFormat":{"encoding":"audio/x-l16"}}})"},
       .audio_format = R"({"event":"media","media":{"payload":"{}"}})",
       .end = R"({"event":"stop"})"},
      {.name = "jambonz",
       .target = "/listen",
       .opening = {R"({"sampleRate":8000,"mixType":"stereo"})"},
       .tracks = 2},
      {.name = "asterisk", .target = "/asterisk", .opening = {"MEDIA_START connection_id:c format:slin"}},
      {.name = "audiohook",
       .target = "/audiohook",
       .opening = {audiohook(1, "open",
                             R"({"media":[{"type":"audio","format":"L16","channels":["external","internal"],)"
                             R"("rate":8000}]})")},
       .end = audiohook(2, "close", R"({"reason":"end"})"),
       .tracks = 2},
  };
  return all;
}

std::string base64(std::span<const std::byte> bytes) {
  std::string text(bytes.size() / 3 * 4 + 5, '\0');
  text.resize(static_cast<size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                                  reinterpret_cast<const unsigned char*>(bytes.data()),
                                                  static_cast<int>(bytes.size()))));
  return text;
}

/// A session of such a client, and what came of it.
class Talk {
 public:
  explicit Talk(const Client& client) : client_(client), session_(begin(client)) {
    session_.watch([this](const Action& action) { note(action); });
    session_.open();
    for (const std::string& text : client.opening) say(text);
  }

  void say(const std::string& text) { session_.text(text); }
  void hear(std::span<const std::byte> bytes) {
    if (client_.audio_format.empty()) {
      session_.binary(bytes, true);
    } else {
      std::string text = client_.audio_format;
      session_.text(text.replace(text.find("{}"), 2, base64(bytes)));
    }
  }
  void recognize(int track, ServerEvent event) { session_.say(track, std::move(event)); }
  void catch_up() { session_.catch_up(); }

  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;

  CheckedSession& session() { return session_; }
  std::map<int, Bytes> audio;
  std::map<int, int> sample_rates;
  std::string replies;  // a line each
  std::optional<Close> close;
  int ignored = 0;

  [[nodiscard]] int count(std::string_view part) const {
    int found = 0;
    for (size_t at = replies.find(part); at != std::string::npos; at = replies.find(part, at + 1)) ++found;
    return found;
  }

 private:
  static CheckedSession begin(const Client& client) {
    Acceptance acceptance = find_dialect(client.name)->accept(test_handshake(client.target));
    return {std::move(std::get<Accepted>(acceptance).dialect), rules_of(client.name)};
  }

  void note(const Action& action) {
    if (const auto* open = std::get_if<OpenTrack>(&action))
      sample_rates[open->track] = open->request.sample_rate;
    if (const auto* part = std::get_if<TrackAudio>(&action)) {
      auto& all = audio[part->track];
      all.insert(all.end(), part->bytes.begin(), part->bytes.end());
    }
    if (const auto* reply = std::get_if<Reply>(&action)) replies += reply->text + "\n";
    if (const auto* closing = std::get_if<Close>(&action)) close = *closing;
    if (std::holds_alternative<Ignored>(action)) ++ignored;
  }

  const Client& client_;
  CheckedSession session_;
};

Bytes numbered_bytes(size_t count) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i % 251);
  return bytes;
}

Final final(std::string text, std::string reason = "endpoint") {
  return {.text = std::move(text), .start = 0.1, .end = 0.2, .words = {}, .reason = std::move(reason)};
}

class AnyDialect : public testing::TestWithParam<Client> {};

TEST_P(AnyDialect, CarriesASplitSampleWhereverMessagesAreCut) {
  const Bytes bytes = numbered_bytes(1600);
  Talk whole(GetParam());
  whole.hear(bytes);
  for (const size_t size : {size_t{1}, size_t{3}, size_t{161}}) {
    Talk cut(GetParam());
    for (size_t at = 0; at < bytes.size(); at += size) {
      cut.hear(std::span(bytes).subspan(at, std::min(size, bytes.size() - at)));
    }
    EXPECT_EQ(cut.audio, whole.audio) << size << " bytes a message";
  }
}

TEST_P(AnyDialect, KeepsTheTracksOfACallApart) {
  const auto sample = static_cast<size_t>(GetParam().sample_bytes);
  const auto tracks = static_cast<size_t>(GetParam().tracks);
  const Bytes bytes = numbered_bytes(sample * tracks * 100);
  std::map<int, Bytes> expected;
  for (size_t i = 0; i < bytes.size(); ++i) {
    expected[static_cast<int>(i / sample % tracks)].push_back(bytes[i]);
  }
  Talk talk(GetParam());
  talk.hear(bytes);
  EXPECT_EQ(talk.audio, expected);
}

TEST_P(AnyDialect, OpensItsTracksAtTheRateOfTheClient) {
  Talk talk(GetParam());
  talk.hear(numbered_bytes(160));
  ASSERT_EQ(talk.sample_rates.size(), static_cast<size_t>(GetParam().tracks));
  for (const auto& [track, rate] : talk.sample_rates) EXPECT_EQ(rate, GetParam().sample_rate);
}

TEST_P(AnyDialect, GoesOnAfterAnEmptyHypothesis) {
  Talk talk(GetParam());
  talk.hear(numbered_bytes(1600));
  for (int i = 0; i < 3; ++i) {
    talk.recognize(0, Partial{.text = "", .start = 0, .end = 0});
    talk.recognize(0, final(""));
  }
  EXPECT_FALSE(talk.session().closed());
  talk.hear(numbered_bytes(1600));
  EXPECT_EQ(talk.audio[0].size(), 3200U / static_cast<size_t>(GetParam().tracks));
}

TEST_P(AnyDialect, IgnoresAndCountsAudioAfterTheEnd) {
  if (GetParam().end.empty()) return;
  Talk talk(GetParam());
  talk.hear(numbered_bytes(1600));
  talk.say(GetParam().end);
  const auto tracks = talk.session().tracks();
  const std::string replies = talk.replies;
  talk.audio.clear();
  talk.hear(numbered_bytes(100));
  // Passed on to a track that takes none, or ignored here: both are counted.
  EXPECT_TRUE(talk.audio.size() == 1 || talk.ignored == 1);
  EXPECT_EQ(talk.session().tracks().size(), tracks.size()) << "it opens another track";
  for (const auto& [index, track] : tracks) {
    EXPECT_TRUE(track.ending);
    EXPECT_EQ(talk.session().tracks().at(index).audio, track.audio);
  }
  EXPECT_EQ(talk.replies, replies);
}

TEST_P(AnyDialect, EndsWithTheLastFinalOfEachTrack) {
  if (GetParam().end.empty()) return;
  Talk talk(GetParam());
  talk.hear(numbered_bytes(1600));
  talk.say(GetParam().end);
  EXPECT_FALSE(talk.session().closed());
  talk.catch_up();
  EXPECT_TRUE(talk.session().tracks().empty());
  // Genesys closes the connection itself when it was told.
  EXPECT_TRUE(talk.close || talk.count(R"("type":"closed")") == 1);
}

/// Whatever is said between, however often it commits.
TEST_P(AnyDialect, AnswersEachCommitExactlyOnce) {
  if (GetParam().commit.empty()) return;
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int session = 0; session < 20; ++session) {
    Talk talk(GetParam());
    talk.hear(numbered_bytes(1600));
    int commits = 0;
    for (int step = 0; step < 60; ++step) {
      const int track = static_cast<int>(random() % static_cast<unsigned>(GetParam().tracks));
      switch (random() % 5) {
        case 0:
          talk.hear(numbered_bytes(1 + random() % 2000));  // without audio it may be an end
          break;
        case 1:
          talk.say(GetParam().commit);
          ++commits;
          break;
        case 2:
          talk.recognize(track, Partial{.text = "MAYBE", .start = 0.1, .end = 0.2});
          break;
        case 3:
          talk.recognize(track, final(random() % 2 == 0 ? "" : "YES", "finalize"));
          break;
        default:
          talk.catch_up();
      }
    }
    talk.catch_up();
    if (!GetParam().committed.empty()) commits = talk.count(GetParam().committed);
    int answers = 0;
    for (const std::string& terminal : GetParam().terminals) answers += talk.count(terminal);
    ASSERT_EQ(answers, commits * GetParam().tracks) << talk.replies;
  }
}

INSTANTIATE_TEST_SUITE_P(Clients, AnyDialect, testing::ValuesIn(clients()),
                         [](const auto& client) { return client.param.name; });

TEST(AnyDialect, HasAClientForEveryDialect) {
  for (const DialectEntry& dialect : dialects()) {
    EXPECT_TRUE(std::ranges::any_of(clients(), [&](const Client& each) { return each.name == dialect.name; }))
        << dialect.name;
  }
}

/// A format that cannot be served, and where the client can say one.
struct BadFormat {
  std::string name;
  std::string target;
  std::string text;
  std::string accepted;  ///< what the answer names
};
void PrintTo(const BadFormat& format, std::ostream* out) { *out << format.name; }

class AnyBadFormat : public testing::TestWithParam<BadFormat> {};

TEST_P(AnyBadFormat, IsRefusedWithWhatWouldBeAccepted) {
  const BadFormat& bad = GetParam();
  Acceptance acceptance = find_dialect(bad.name)->accept(test_handshake(bad.target));
  if (const auto* refused = std::get_if<Refused>(&acceptance)) {
    EXPECT_THAT(refused->body, HasSubstr(bad.accepted));
    return;
  }
  CheckedSession session(std::move(std::get<Accepted>(acceptance).dialect), rules_of(bad.name));
  std::string answer;
  session.watch([&answer](const Action& action) {
    if (const auto* reply = std::get_if<Reply>(&action)) answer += reply->text;
    if (const auto* close = std::get_if<Close>(&action)) answer += close->message;
  });
  session.open();
  if (!bad.text.empty()) session.text(bad.text);
  EXPECT_TRUE(session.tracks().empty());
  EXPECT_THAT(answer, HasSubstr(bad.accepted));
}

INSTANTIATE_TEST_SUITE_P(
    Formats, AnyBadFormat,
    testing::Values(
        BadFormat{"native", "/v1/stream?sample_rate=800", "", "4000 to 384000"},
        BadFormat{"vosk", "/vosk", R"({"config":{"sample_rate":800}})", "4000 to 384000"},
        BadFormat{"deepgram", "/v1/listen?encoding=linear16&sample_rate=800", "", "4000 to 384000"},
        BadFormat{"openai", "/v1/realtime",
                  R"({"type":"session.update","session":{"audio":{"input":{"format":{"type":"audio/pcm",)"
                  R"("rate":800}}}}})",
                  "4000 to 384000"},
        BadFormat{
            "twilio", "/twilio",
            R"({"event":"start","start":{"mediaFormat":{"encoding":"audio/x-mulaw","sampleRate":800}}})",
            "from 4000 Hz"},
        BadFormat{"jambonz", "/listen", R"({"sampleRate":800})", "4000 to 384000"},
        BadFormat{"asterisk", "/asterisk", "MEDIA_START format:g729", "ulaw, alaw, slin"},
        BadFormat{"audiohook", "/audiohook",
                  audiohook(1, "open",
                            R"({"media":[{"type":"audio","format":"PCMU","channels":["external"],)"
                            R"("rate":16000}]})"),
                  "8000 Hz"}),
    [](const auto& format) { return format.param.name; });

}  // namespace
}  // namespace tutti::proto
