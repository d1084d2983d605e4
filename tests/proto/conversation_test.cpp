#include "tests/proto/conversation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "proto/audiohook.hpp"
#include "proto/audiosocket.hpp"
#include "proto/deepgram.hpp"
#include "proto/openai_realtime.hpp"
#include "proto/telephony.hpp"
#include "proto/twilio.hpp"
#include "tests/config/random_bytes.hpp"

namespace tutti::proto {
namespace {

struct Script {
  const char* name;
  AcceptFunction accept;
};

void PrintTo(const Script& script, std::ostream* out) { *out << script.name; }

/// It has no handshake: what is accepted is the connection.
Acceptance accept_audiosocket(const Handshake& /*handshake*/) {
  return Accepted{.dialect = make_audiosocket(), .subprotocol = {}, .headers = {}};
}

class Conversation : public testing::TestWithParam<Script> {};

TEST_P(Conversation, GoesAsWritten) {
  const std::string script = read_conversation(GetParam().name);
  EXPECT_EQ(replay(script, GetParam().accept), script);
}

INSTANTIATE_TEST_SUITE_P(
    Scripts, Conversation,
    testing::Values(
        Script{"deepgram-dictation", accept_deepgram}, Script{"deepgram-multichannel", accept_deepgram},
        Script{"deepgram-mistakes", accept_deepgram}, Script{"deepgram-opus", accept_deepgram},
        Script{"openai-turns", accept_openai_realtime}, Script{"openai-commits", accept_openai_realtime},
        Script{"openai-mistakes", accept_openai_realtime}, Script{"twilio-call", accept_twilio},
        Script{"twilio-others", accept_twilio}, Script{"jambonz", accept_jambonz},
        Script{"asterisk", accept_asterisk}, Script{"audiohook-session", accept_audiohook},
        Script{"audiohook-mistakes", accept_audiohook}, Script{"audiosocket", accept_audiosocket}),
    [](const auto& script) {
      std::string name = script.param.name;
      std::ranges::replace(name, '-', '_');
      return name;
    });

TEST(AnyClient, OfDeepgramIsSurvived) {
  torture(
      accept_deepgram,
      {.targets = {"/v1/listen?encoding=linear16&sample_rate=16000&interim_results=true&utterance_end_ms=10",
                   "/v1/listen?encoding=mulaw&sample_rate=8000&channels=3&multichannel=true&vad_events=true"},
       .messages = {R"({"type":"KeepAlive"})", R"({"type":"Finalize"})", R"({"type":"CloseStream"})",
                    R"({"type":"Configure","processors":{}})"}},
      fresh_seed());
}

TEST(AnyClient, OfOpenAiIsSurvived) {
  torture(
      accept_openai_realtime,
      {.targets = {"/v1/realtime?intent=transcription"},
       .messages = {R"({"type":"input_audio_buffer.append","audio":")" + std::string(9600, 'A') + "\"}",
                    R"({"type":"input_audio_buffer.commit"})", R"({"type":"input_audio_buffer.clear"})",
                    R"({"type":"session.update","session":{"turn_detection":null}})",
                    R"({"type":"session.update","session":{"audio":{"input":{"format":{"type":"audio/pcmu"},)"
                    R"("turn_detection":{"type":"server_vad","silence_duration_ms":300}}}}})",
                    R"({"type":"transcription_session.update","session":{"input_audio_format":"pcm16"}})"}},
      fresh_seed());
}

TEST(AnyClient, OfTwilioIsSurvived) {
  std::vector<std::string> messages = {R"({"event":"connected","version":"1.0.0"})",
                                       R"({"event":"start","streamSid":"MZ1"})",
                                       R"({"event":"start","streamSid":"MZ1"})", R"({"event":"stop"})"};
  for (int i = 1; i < 40; ++i) {
    messages.push_back(R"({"event":"media","media":{"track":"t)" + std::to_string(i % 3) + R"(","chunk":")" +
                       std::to_string(i) + R"(","timestamp":")" + std::to_string(i * 20) +
                       R"(","payload":")" + std::string(216, 'A') + "\"}}");
  }
  torture(accept_twilio, {.targets = {"/twilio"}, .messages = messages, .fills_gaps = true}, fresh_seed());
}

TEST(AnyClient, OfJambonzIsSurvived) {
  torture(accept_jambonz,
          {.targets = {"/listen", "/listen?sample_rate=16000&channels=2"},
           .messages = {R"({"callSid":"x","sampleRate":16000,"mixType":"stereo"})", R"({"event":"dtmf"})"}},
          fresh_seed());
}

TEST(AnyClient, OfAsteriskIsSurvived) {
  torture(
      accept_asterisk,
      {.targets = {"/asterisk", "/asterisk?format=alaw"},
       .messages = {"MEDIA_START connection_id:a channel:b channel_id:c format:slin16 optimal_frame_size:640",
                    R"({"event":"MEDIA_START","channel_id":"c","format":"ulaw"})", "DTMF_END digit:1"}},
      fresh_seed());
}

TEST(AnyClient, OfAudioHookIsSurvived) {
  const auto message = [](int seq, const std::string& type, const std::string& parameters) {
    return R"({"version":"2","id":"e160e428-53b2-487c-977d-96989bf5c99d","type":")" + type + R"(","seq":)" +
           std::to_string(seq) + R"(,"serverseq":0,"position":"PT1.5S","parameters":)" + parameters + "}";
  };
  std::vector<std::string> messages;
  for (int i = 0; i < 40; ++i) {
    messages.push_back(message(
        1, "open",
        R"({"media":[{"type":"audio","format":"L16","channels":["external","internal"],"rate":8000}]})"));
  }
  for (int seq = 2; seq < 6; ++seq) {
    messages.push_back(message(seq, "ping", "{}"));
    messages.push_back(message(seq, "paused", "{}"));
    messages.push_back(message(seq, "resumed", R"({"start":"PT1S","discarded":"PT99999999999S"})"));
    messages.push_back(message(seq, "close", R"({"reason":"end"})"));
  }
  torture(accept_audiohook, {.targets = {"/audiohook"}, .messages = messages}, fresh_seed());
}

TEST(AnyClient, OfAudioSocketIsSurvived) {
  torture(accept_audiosocket, {.targets = {"/"}, .messages = {"text"}, .has_frames = true}, fresh_seed());
}

/// Frames of all kinds, cut at random.
TEST(AudioSocket, HearsTheSameHoweverItsBytesAreCut) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto pick = [&](int count) { return std::uniform_int_distribution<int>(0, count - 1)(random); };
  std::vector<std::byte> stream;
  std::vector<std::byte> audio;
  for (int i = 0; i < 200; ++i) {
    const bool is_audio = pick(3) != 0;
    const int bytes = is_audio ? 2 * pick(400) : 1;
    for (const int byte : {is_audio ? 0x12 : 0x03, bytes >> 8, bytes & 0xff})
      stream.push_back(std::byte(byte));
    for (int k = 0; k < bytes; ++k) {
      stream.push_back(std::byte(pick(256)));
      if (is_audio) audio.push_back(stream.back());
    }
  }
  const auto dialect = make_audiosocket();
  std::vector<std::byte> heard;
  for (size_t at = 0; at < stream.size();) {
    const size_t size = std::min(stream.size() - at, static_cast<size_t>(pick(pick(2) == 0 ? 4 : 1000)));
    Actions actions;
    dialect->on_binary(std::span(stream).subspan(at, size), true, actions);
    for (const Action& action : actions) {
      if (const auto* part = std::get_if<TrackAudio>(&action)) {
        heard.insert(heard.end(), part->bytes.begin(), part->bytes.end());
      }
    }
    at += size;
  }
  EXPECT_EQ(heard, audio);
}

}  // namespace
}  // namespace tutti::proto
