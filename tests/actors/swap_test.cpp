#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "actors/metrics.hpp"
#include "actors/service.hpp"
#include "config/result.hpp"
#include "tests/actors/service_client.hpp"
#include "tests/engine/engine_fixture.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

const std::vector<std::string> clips{"libri-02.flac", "libri-06.flac", "libri-19.flac"};

EngineConfig decoder_config() {
  EngineConfig config;
  config.decoder = "rescore";
  return config;
}

/// A server whose model is exchanged while it serves. Its models are the bundled one and another, whose words
/// make no sense.
class SwapTest : public testing::Test {
 protected:
  enum class Model { bundled, other };

  ServiceOptions options(Model model, int owners = 2) {
    ServiceOptions options;
    const EngineConfig config = model == Model::bundled ? greedy_config() : decoder_config();
    for (int i = 0; i < owners; ++i) {
      options.owners.push_back({.device = "cpu",
                                .model_identity = model == Model::bundled ? "bundled" : "other",
                                .make_engine = [config] { return make_engine(config); },
                                .core = {},
                                .snapshots = std::chrono::milliseconds(1500),
                                .metrics = metrics});
    }
    return options;
  }

  /// The finals of a clip that is sent as a whole.
  static std::vector<std::string> finals(const RecordingSink& sink) {
    std::vector<std::string> finals;
    for (const std::string& message : sink.messages) {
      if (message.find("\"type\":\"final\"") != std::string::npos) finals.push_back(message);
    }
    return finals;
  }

  static std::vector<std::string> recognize(RecognitionService& service, const std::string& name) {
    Client client(service.gateway(), "interim=false");
    client.send(pcm(clip(name)));
    client.send_text(R"({"type":"eof"})");
    return finals(client.wait_until_closed());
  }

  /// What each clip is told by a server that has never had another model.
  std::vector<std::vector<std::string>> undisturbed(Model model) {
    RecognitionService service(options(model, 1), metrics);
    std::vector<std::vector<std::string>> all;
    for (const std::string& name : clips) all.push_back(recognize(service, name));
    return all;
  }

  /// Waits until `text` is a line of the metrics; else the test's own time-out ends it.
  void wait_for_metric(const std::string& text) const {
    while (metrics->text().find(text + "\n") == std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
};

TEST_F(SwapTest, AStreamEndsWithTheModelItBeganWithAndNewOnesGetTheOther) {
  const auto of_bundled = undisturbed(Model::bundled);
  const auto of_other = undisturbed(Model::other);
  ASSERT_NE(of_bundled[0], of_other[0]);
  RecognitionService service(options(Model::bundled), metrics);
  const std::vector<std::byte> audio = pcm(clip(clips[0]));
  Client before(service.gateway(), "interim=false");
  before.send(std::span(audio).first(audio.size() / 2));

  const Handover handover = service.use(options(Model::other));
  EXPECT_EQ(handover.model_before, "tutti-en-mini");
  EXPECT_EQ(handover.streams_left, 1);
  EXPECT_EQ(service.status().model().name, "conformer-u2pp-tiny");
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_model_info{model=\"conformer-u2pp-tiny\"} 1\n"));
  EXPECT_THAT(metrics->text(), testing::Not(HasSubstr("tutti-en-mini")));

  EXPECT_EQ(recognize(service, clips[0]), of_other[0]);
  before.send(std::span(audio).subspan(audio.size() / 2));
  before.send_text(R"({"type":"eof"})");
  EXPECT_EQ(finals(before.wait_until_closed()), of_bundled[0]);
}

TEST_F(SwapTest, OwnersOfAModelBeforeEndWithItsLastStreamAndGiveTheirBlocksBack) {
  RecognitionService service(options(Model::bundled), metrics);
  const int blocks_of_one = make_engine()->kv_blocks();
  const int blocks_of_other = make_engine(decoder_config())->kv_blocks();
  Client first(service.gateway(), "");
  Client second(service.gateway(), "");
  first.wait_until_placed();
  second.wait_until_placed();  // on the other owner
  EXPECT_EQ(service.use(options(Model::other)).streams_left, 2);
  wait_for_metric("tutti_owners{state=\"retiring\"} 2");
  wait_for_metric(fmt::format("tutti_kv_blocks {}", 2 * blocks_of_one + 2 * blocks_of_other));
  first.send_text(R"({"type":"eof"})");
  first.wait_until_closed();
  wait_for_metric(fmt::format("tutti_kv_blocks {}", blocks_of_one + 2 * blocks_of_other));
  second.send_text(R"({"type":"eof"})");
  second.wait_until_closed();
  wait_for_metric(fmt::format("tutti_kv_blocks {}", 2 * blocks_of_other));
  wait_for_metric("tutti_owners{state=\"alive\"} 2");
}

TEST_F(SwapTest, TheWayBackIsOpenWhileStreamsOfBothModelsGoOn) {
  const auto of_bundled = undisturbed(Model::bundled);
  const auto of_other = undisturbed(Model::other);
  RecognitionService service(options(Model::bundled, 1), metrics);
  const std::vector<std::byte> audio = pcm(clip(clips[1]));
  Client first(service.gateway(), "interim=false");
  first.send(std::span(audio).first(audio.size() / 2));
  EXPECT_EQ(service.use(options(Model::other, 1)).streams_left, 1);
  Client second(service.gateway(), "interim=false");
  second.send(std::span(audio).first(audio.size() / 2));
  EXPECT_EQ(service.use(options(Model::bundled, 1)).streams_left, 2);
  EXPECT_EQ(recognize(service, clips[1]), of_bundled[1]);
  for (Client* client : {&first, &second}) {
    client->send(std::span(audio).subspan(audio.size() / 2));
    client->send_text(R"({"type":"eof"})");
  }
  EXPECT_EQ(finals(first.wait_until_closed()), of_bundled[1]);
  EXPECT_EQ(finals(second.wait_until_closed()), of_other[1]);
}

TEST_F(SwapTest, ACrowdThatComesAndGoesMeanwhileLosesNothing) {
  const auto of_bundled = undisturbed(Model::bundled);
  const auto of_other = undisturbed(Model::other);
  RecognitionService service(options(Model::bundled), metrics);
  std::atomic<bool> goes_on{true};
  std::atomic<int> right{0};
  std::atomic<int> of_first_model{0};
  std::atomic<int> sessions{0};
  std::vector<std::thread> crowd;
  for (size_t i = 0; i < 6; ++i) {
    crowd.emplace_back([&, i] {
      const size_t which = i % clips.size();
      const std::vector<std::byte> audio = pcm(clip(clips[which]));
      do {
        Client client(service.gateway(), "interim=false");
        client.send(audio);
        client.send_text(R"({"type":"eof"})");
        const RecordingSink& sink = client.wait_until_closed();
        const bool is_bundled = sink.count("\"model\":\"tutti-en-mini\"") == 1;
        of_first_model += is_bundled ? 1 : 0;
        right += finals(sink) == (is_bundled ? of_bundled : of_other)[which] ? 1 : 0;
        ++sessions;
      } while (goes_on);
    });
  }
  for (const Model model : {Model::other, Model::bundled, Model::other}) {
    service.use(options(model));
    // Six are open at most: of nine that end, three began since.
    for (const int before = sessions; sessions < before + 9;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  goes_on = false;
  for (std::thread& thread : crowd) thread.join();
  EXPECT_EQ(right, sessions);
  EXPECT_GE(of_first_model, 3);
  EXPECT_GE(sessions - of_first_model, 6);
  wait_for_metric("tutti_owners{state=\"alive\"} 2");
}

TEST_F(SwapTest, AModelThatIsRefusedLeavesEverythingAsItWas) {
  RecognitionService service(options(Model::bundled, 1), metrics);
  const std::string expected = expected_text(clips[0]);
  Client open(service.gateway(), "interim=false");
  open.wait_until_placed();

  ServiceOptions broken = options(Model::other);
  broken.grace = std::chrono::seconds(77);
  broken.owners.back().make_engine = []() -> std::unique_ptr<Engine> {
    throw std::runtime_error("out of memory: 5 GiB are needed, 1 GiB is free");
  };
  EXPECT_THAT([&] { service.use(broken); },
              testing::ThrowsMessage<SetupError>(HasSubstr("out of memory: 5 GiB are needed")));

  ServiceOptions tight = options(Model::other, 1);
  tight.owners.back().make_engine = [] {
    EngineConfig config = decoder_config();
    config.max_buffered_ms = 2000;
    return make_engine(config);
  };
  EXPECT_THAT([&] { service.use(tight); },
              testing::ThrowsMessage<SetupError>(HasSubstr("less than max_buffered_ms (2000)")));
  tight.credit_ms = 1500;  // of new sessions; those that open now have more
  EXPECT_THROW(service.use(tight), SetupError);

  EXPECT_EQ(service.status().model().name, "tutti-en-mini");
  wait_for_metric(fmt::format("tutti_kv_blocks {}", make_engine()->kv_blocks()));
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_owners{state=\"retiring\"} 0\n"));
  EXPECT_THAT(recognize(service, clips[0]), testing::ElementsAre(HasSubstr(expected)));
  open.send(pcm(clip(clips[0])));
  open.send_text(R"({"type":"eof"})");
  EXPECT_THAT(finals(open.wait_until_closed()), testing::ElementsAre(HasSubstr(expected)));
}

TEST_F(SwapTest, RulesWithoutOwnersHoldForWhatBeginsFromThenOn) {
  RecognitionService service(options(Model::bundled, 1), metrics);
  Client before(service.gateway(), "interim=false");
  before.wait_until_placed();

  ServiceOptions rules = options(Model::bundled, 0);
  rules.endpoint = EndpointRules{};
  rules.uploads.max_uploads = 1;
  rules.grace = std::chrono::seconds(0);
  EXPECT_EQ(service.use(rules).streams_left, 0);
  const auto place = service.uploads().take_place();
  EXPECT_NE(place, nullptr);
  EXPECT_EQ(service.uploads().take_place(), nullptr);
  Client after(service.gateway(), "interim=false");
  for (Client* client : {&before, &after}) {
    client->send(pcm(clip(clips[1])));
    client->send(std::vector<std::byte>(2 * 32000));
    client->send_text(R"({"type":"eof"})");
  }
  EXPECT_EQ(before.wait_until_closed().count("\"reason\":\"endpoint\""), 0);
  EXPECT_GE(after.wait_until_closed().count("\"reason\":\"endpoint\""), 1);

  ServiceOptions wrong = rules;
  wrong.credit_ms = 1000;
  EXPECT_THROW(service.use(wrong), SetupError);

  Client open(service.gateway(), "");
  open.wait_until_placed();
  service.drain();  // with no time left
  service.wait();
  EXPECT_EQ(open.wait_until_closed().count("\"done\""), 1);
}

}  // namespace
}  // namespace tutti::test
