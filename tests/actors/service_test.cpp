#include "actors/service.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "actors/metrics.hpp"
#include "config/result.hpp"
#include "tests/actors/service_client.hpp"
#include "tests/engine/engine_fixture.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

class ServiceTest : public testing::Test {
 protected:
  ServiceOptions options(int owners) {
    ServiceOptions options;
    for (int i = 0; i < owners; ++i) {
      options.owners.push_back(
          {.device = "cpu", .make_engine = [] { return make_engine(); }, .core = {}, .metrics = metrics});
    }
    return options;
  }
  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
};

std::string final_of(const std::string& text) { return "\"text\":\"" + text + "\""; }

TEST_F(ServiceTest, RecognizesManyStreamsAtOnceAsTheReferenceDoesEach) {
  RecognitionService service(options(2), metrics);
  const std::vector<std::string> names{"libri-02.flac", "libri-06.flac", "libri-19.flac",
                                       "ocean-24.flac", "ocean-28.flac", "ocean-33.flac"};
  std::vector<std::unique_ptr<Client>> clients;
  for (size_t i = 0; i < names.size(); ++i) {
    clients.push_back(std::make_unique<Client>(service.gateway(), "interim=false"));
  }
  for (size_t i = 0; i < names.size(); ++i) clients[i]->send(pcm(clip(names[i])));
  for (const auto& client : clients) client->send_text(R"({"type":"eof"})");
  for (size_t i = 0; i < names.size(); ++i) {
    const RecordingSink& sink = clients[i]->wait_until_closed();
    EXPECT_EQ(sink.count(final_of(expected_text(names[i]))), 1) << names[i];
    EXPECT_EQ(sink.count("\"final\""), 1) << names[i];
    EXPECT_EQ(sink.close_reason, CloseReason::normal);
  }
}

TEST_F(ServiceTest, EndsSegmentsAndTellsOfSpeechAsTheClientAsks) {
  RecognitionService service(options(1), metrics);
  Client client(service.gateway(), "interim=false&endpointing=500&vad_events=true");
  for (int i = 0; i < 2; ++i) {
    client.send(pcm(clip("libri-02.flac")));
    client.send(std::vector<std::byte>(2 * 2 * 16000));
  }
  client.send_text(R"({"type":"eof"})");
  const RecordingSink& sink = client.wait_until_closed();
  EXPECT_GE(sink.count("\"endpoint\""), 2);
  EXPECT_GE(sink.count("\"speech_started\""), 2);
  EXPECT_EQ(sink.count("\"speech_started\""), sink.count("\"speech_stopped\""));
}

TEST_F(ServiceTest, TakesAnUploadLargerThanItsCreditInOneMessage) {
  RecognitionService service(options(1), metrics);
  Client client(service.gateway(), "format=text&interim=false");
  client.wait_until_placed();
  const std::vector<float> audio = clip("libri-00.flac");
  ASSERT_GT(audio.size(), 4U * 16000);
  client.send(pcm(audio));
  client.send_text(R"({"type":"eof"})");
  EXPECT_EQ(client.wait_until_closed().messages, std::vector<std::string>{expected_text("libri-00.flac")});
}

TEST_F(ServiceTest, EndsASegmentWhereTheSpeakerPauses) {
  ServiceOptions pausing = options(1);
  pausing.endpoint = EndpointRules{};
  RecognitionService service(pausing, metrics);
  Client client(service.gateway(), "interim=false");
  for (int i = 0; i < 2; ++i) {
    client.send(pcm(clip("libri-06.flac")));
    client.send(std::vector<std::byte>(2 * 32000));
  }
  client.send_text(R"({"type":"eof"})");
  const RecordingSink& sink = client.wait_until_closed();
  EXPECT_GE(sink.count("\"reason\":\"endpoint\""), 2);
  EXPECT_EQ(sink.count("\"reason\":\"eof\""), 1);
}

TEST_F(ServiceTest, DrainingDeliversTheFinalOfWhatWasSent) {
  ServiceOptions impatient = options(1);
  impatient.grace = std::chrono::seconds(0);
  RecognitionService service(impatient, metrics);
  Client client(service.gateway(), "");
  const std::vector<float> audio = clip("libri-02.flac");
  client.send(pcm(audio));
  service.drain();
  service.wait();
  const RecordingSink& sink = client.wait_until_closed();
  EXPECT_EQ(sink.count(final_of(expected_text("libri-02.flac"))), 1);
  EXPECT_EQ(sink.count("\"done\""), 1);
  EXPECT_EQ(sink.close_reason, CloseReason::going_away);
  Client late(service.gateway(), "");
  EXPECT_EQ(late.wait_until_closed().count("\"draining\""), 1);
}

TEST_F(ServiceTest, StoppingEndsStreamsWithoutTheirFinals) {
  RecognitionService service(options(1), metrics);
  Client client(service.gateway(), "");
  client.wait_until_placed();
  service.stop();
  service.wait();
  EXPECT_EQ(client.wait_until_closed().count("\"stopped\""), 1);
}

TEST_F(ServiceTest, ItsDestructionEndsWhatIsOpen) {
  std::unique_ptr<Client> client;
  {
    RecognitionService service(options(1), metrics);
    client = std::make_unique<Client>(service.gateway(), "");
    client->wait_until_placed();
  }
  EXPECT_EQ(client->wait_until_closed().count("\"stopped\""), 1);
}

TEST_F(ServiceTest, SaysWhichDeviceCannotStart) {
  ServiceOptions broken = options(1);
  broken.owners.push_back(
      {.device = "cuda:3",
       .make_engine = []() -> std::unique_ptr<Engine> { throw std::runtime_error("no such device"); },
       .core = {},
       .metrics = metrics});
  try {
    RecognitionService service(broken, metrics);
    FAIL() << "it started";
  } catch (const SetupError& error) {
    EXPECT_STREQ(error.what(), "cuda:3: no such device");
  }
}

TEST_F(ServiceTest, RefusesACreditThatItsModelCannotWorkWith) {
  ServiceOptions small = options(1);
  small.credit_ms = 1000;
  EXPECT_THROW(RecognitionService(small, metrics), SetupError);
}

}  // namespace
}  // namespace tutti::test
