#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "actors/metrics.hpp"
#include "actors/service.hpp"
#include "tests/actors/service_client.hpp"
#include "tests/engine/engine_fixture.hpp"
#include "tests/engine/faulty_ops.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

constexpr const char* query = "endpointing=500&vad_events=true";

/// Owners of real engines whose devices fail as planned.
class FailoverTest : public testing::Test {
 protected:
  ServiceOptions options(int owners, const std::shared_ptr<FaultPlan>& plan) {
    ServiceOptions options;
    for (int i = 0; i < owners; ++i) {
      options.owners.push_back({.device = "test",
                                .make_engine = [plan] { return make_faulty_engine(plan); },
                                .core = {},
                                .snapshots = std::chrono::milliseconds(1500),
                                .metrics = metrics});
    }
    return options;
  }

  struct Speaker {
    std::vector<std::vector<std::byte>> utterances;  // each is finalized
    std::vector<std::string> undisturbed;
  };

  static std::vector<Speaker> speakers() {
    std::vector<Speaker> all(5);
    const std::vector<std::string> clips{"libri-02.flac", "libri-06.flac", "ocean-24.flac", "ocean-28.flac",
                                         "libri-19.flac"};
    for (size_t i = 0; i < all.size(); ++i) {
      for (size_t k = 0; k < 2; ++k) {
        std::vector<float> audio = clip(clips[(i + k) % clips.size()]);
        audio.resize(audio.size() + 24000);
        const std::vector<float> more = clip(clips[(i + k + 2) % clips.size()]);
        audio.insert(audio.end(), more.begin(), more.end());
        all[i].utterances.push_back(pcm(audio));
      }
    }
    return all;
  }

  /// What each is told, but partials: which of them come depends on the time.
  static std::vector<std::vector<std::string>> speak(RecognitionService& service,
                                                     const std::vector<Speaker>& speakers) {
    std::vector<std::unique_ptr<Client>> clients;
    for (size_t i = 0; i < speakers.size(); ++i) {
      clients.push_back(std::make_unique<Client>(service.gateway(), query));
    }
    std::vector<std::thread> threads;
    for (size_t i = 0; i < speakers.size(); ++i) {
      threads.emplace_back([&client = *clients[i], &speaker = speakers[i]] {
        for (const auto& utterance : speaker.utterances) {
          client.send(utterance);
          client.send_text(R"({"type":"finalize"})");
        }
        client.send_text(R"({"type":"eof"})");
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<std::vector<std::string>> told(speakers.size());
    for (size_t i = 0; i < speakers.size(); ++i) {
      for (const std::string& message : clients[i]->wait_until_closed().messages) {
        if (message.find("\"partial\"") == std::string::npos) told[i].push_back(message);
      }
    }
    return told;
  }

  std::vector<Speaker> undisturbed() {
    std::vector<Speaker> all = speakers();
    RecognitionService service(options(1, std::make_shared<FaultPlan>()), metrics);
    const auto told = speak(service, all);
    for (size_t i = 0; i < all.size(); ++i) all[i].undisturbed = told[i];
    return all;
  }

  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
};

TEST_F(FailoverTest, StreamsOfOwnersThatDieSayWhatTheyWouldHaveSaid) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::vector<Speaker> all = undisturbed();
  ASSERT_GE(all[0].undisturbed.size(), 6U);
  for (int round = 0; round < 4; ++round) {
    const auto plan = std::make_shared<FaultPlan>();
    ServiceOptions faulty = options(2, plan);
    RecognitionService service(faulty, metrics);
    plan->ticks_left = static_cast<int>(random() % 40);
    const auto told = speak(service, all);
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(told[i], all[i].undisturbed) << round << ", " << i;
    EXPECT_LT(plan->ticks_left, 0) << "no device failed";
  }
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_owner_losses_total{how=\"died\"} 4"));
}

TEST_F(FailoverTest, TheOnlyOwnerIsReplacedAndItsStreamsGoOn) {
  const std::vector<Speaker> all = undisturbed();
  const auto plan = std::make_shared<FaultPlan>();
  RecognitionService service(options(1, plan), metrics);
  service.listening();
  plan->ticks_left = 20;
  const auto told = speak(service, all);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(told[i], all[i].undisturbed) << i;
  EXPECT_LT(plan->ticks_left, 0);
  EXPECT_TRUE(service.status().ready());
}

TEST_F(FailoverTest, StreamsOfAnOwnerThatHangsGoOnWithAnother) {
  const std::vector<Speaker> all = undisturbed();
  const auto plan = std::make_shared<FaultPlan>();
  plan->hangs = true;
  ServiceOptions hanging = options(2, plan);
  hanging.placement.owner_timeout = std::chrono::milliseconds(300);
  RecognitionService service(hanging, metrics);
  service.listening();
  plan->ticks_left = 15;
  const auto told = speak(service, all);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(told[i], all[i].undisturbed) << i;
  EXPECT_FALSE(service.status().ready());
  EXPECT_TRUE(service.has_hung_owner());
  plan->released = true;
  plan->released.notify_all();
  while (!service.status().ready()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace
}  // namespace tutti::test
