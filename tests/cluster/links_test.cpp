#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <set>

#include "cluster/directory.hpp"
#include "cluster/engine_host.hpp"
#include "cluster/frames.hpp"
#include "tests/actors/stream_fixture.hpp"

namespace tutti::test {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

RecognizerIdentity identity_of(char model) {
  RecognizerIdentity identity{.model = {}, .settings = "chunk_size=16"};
  identity.model.digest.fill(static_cast<uint8_t>(model));
  return identity;
}

/// A gateway and engines with fake owners, in one process and without sockets. An owner is known by its log.
class LinksTest : public ActorTest {
 protected:
  using Log = std::shared_ptr<OwnerLog>;

  void SetUp() override {
    rules.owners_may_join = true;
    ActorTest::start({});
    system.run();
  }

  void TearDown() override {
    caf::anon_send_exit(directory_, caf::exit_reason::user_shutdown);
    for (auto& [address, host] : hosts) caf::anon_send_exit(host, caf::exit_reason::user_shutdown);
    hosts.clear();
    directory_ = nullptr;
    ActorTest::TearDown();
  }

  /// What is at the addresses is up to the test.
  void look_for(const std::vector<std::string>& addresses) {
    DirectorySetup setup;
    setup.engines = {"engines"};
    setup.version = "1.0";
    setup.name = "the gateway";
    setup.credit_ms = credit_ms;
    setup.placement = placement;
    setup.status = status;
    setup.metrics = gateway_metrics;
    setup.resolve = [addresses](const Directory& self, const std::string& name) {
      caf::anon_send(self, Resolved{.name = name, .addresses = addresses});
    };
    setup.probe = [this](const Directory& self, const std::string& address) {
      ++probes[address];
      if (!silent.contains(address)) caf::anon_send(self, Probed{.address = address, .outcome = {}});
    };
    setup.connect = [this](Directory::pointer, const std::string& address,
                           const DirectorySetup::Connected& connected) {
      const auto at = hosts.find(address);
      connected(at == hosts.end() ? FramePeer{} : caf::actor_cast<FramePeer>(at->second), "nobody is there");
    };
    directory_ = system->spawn(directory, setup);
    advance(1);
  }

  void start_engine(const std::string& address, const std::string& version = "1.0") {
    hosts[address] = system->spawn(
        engine_host,
        EngineHostSetup{
            .version = version, .name = "engine " + address, .device = "fake", .metrics = engine_metrics});
  }

  Log add_owner(const std::string& address, int max_streams, char model = 'a') {
    const GpuOwner owner = replacement(max_streams);
    caf::anon_send(hosts.at(address), join_atom_v,
                   SharedOwner{.actor = owner,
                               .info = fake_info(max_streams),
                               .identity = identity_of(model),
                               .model = nullptr});
    system.run();
    return logs.back();
  }

  Log add_engine(const std::string& address, int max_streams, char model = 'a') {
    start_engine(address);
    return add_owner(address, max_streams, model);
  }

  void end_engine(const std::string& address) {
    caf::anon_send_exit(hosts.at(address), caf::exit_reason::kill);
    hosts.erase(address);
    system.run();
  }

  void end_gateway() {
    caf::anon_send_exit(directory_, caf::exit_reason::kill);
    system.run();
  }

  void kill_owner(const Log& log) {
    const auto at = std::ranges::find(logs, log);
    kill(static_cast<size_t>(at - logs.begin()));
  }

  void drain_engine(const std::string& address) {
    caf::anon_send(hosts.at(address), drain_atom_v);
    system.run();
  }

  void advance(int count) {
    for (int i = 0; i < count; ++i) system.advance(seconds(1));
  }

  void say(const Session& session, size_t samples) {
    session.port->on_audio(silence(2 * samples));
    system.run();
  }
  void say_text(const Session& session, const std::string& text) {
    session.port->on_text(text);
    system.run();
  }

  /// What the owner says of its first stream.
  void tell(const Log& log, Update update) {
    caf::anon_send(log->streams[0], update_atom_v,
                   StreamUpdates{make_buffer(std::vector{std::move(update)}), log->options[0].tag});
    system.run();
  }

  static bool is_ready(const Session& session) { return session.sink->count("\"ready\"") == 1; }

  std::string gateway_text() const { return text_of(*gateway_metrics); }
  std::string engine_text() const { return text_of(*engine_metrics); }

  std::shared_ptr<ClusterMetrics> gateway_metrics = std::make_shared<ClusterMetrics>();
  std::shared_ptr<ClusterMetrics> engine_metrics = std::make_shared<ClusterMetrics>();
  std::set<std::string> silent;  // addresses where nothing answers
  std::map<std::string, int> probes;
  std::map<std::string, EngineHost> hosts;

 private:
  static std::string text_of(const ClusterMetrics& metrics) {
    std::string text;
    for (const prometheus::MetricFamily& family : metrics.Collect()) {
      for (const prometheus::ClientMetric& metric : family.metric) {
        text += family.name;
        for (const auto& label : metric.label) text += " " + label.value;
        text += " " + std::to_string(static_cast<int>(metric.counter.value + metric.gauge.value)) + "\n";
      }
    }
    return text;
  }

  Directory directory_;
};

TEST_F(LinksTest, AStreamIsRecognizedByAnEngineAsByAnOwnerOfThisProcess) {
  const Log log = add_engine("a", 2);
  look_for({"a"});
  const Session session = open("vad_events=true&endpointing=700");
  ASSERT_TRUE(is_ready(session));
  EXPECT_EQ(session.sink->count("\"fake\""), 1) << "it is told the engine's model";
  ASSERT_EQ(log->admitted, 1);
  EXPECT_TRUE(log->options[0].voice_events);
  EXPECT_EQ(log->options[0].endpoint.silence_after_speech_ms, 700);
  say(session, 1600);
  EXPECT_EQ(log->samples.size(), 1600U);
  say_text(session, R"({"type":"finalize"})");
  EXPECT_THAT(log->finalized_at, testing::ElementsAre(1600));
  Update final;
  final.kind = Update::Kind::final;
  final.text = "heard far away";
  final.reason = FinalReason::finalize;
  final.consumed_samples = 1600;
  tell(log, final);
  EXPECT_EQ(session.sink->count("heard far away"), 1);
  EXPECT_EQ(session.sink->granted, 2 * (credit_ms * 16 + 1600)) << "what was consumed is granted again";
  // The dialect has no word for it.
  send_frame(caf::actor_cast<FramePeer>(log->streams[0]), wire::Reset{.stream = first_stream_number(1) + 1});
  system.run();
  EXPECT_THAT(log->reset_at, testing::ElementsAre(1600));
  say_text(session, R"({"type":"eof"})");
  EXPECT_EQ(log->finished, 1);
  Update done;
  done.kind = Update::Kind::done;
  tell(log, done);
  EXPECT_TRUE(session.sink->closed());
}

TEST_F(LinksTest, AGatewayIsReadyWhileThereIsAnEngine) {
  look_for({"a"});
  EXPECT_FALSE(status->ready());
  EXPECT_EQ(open().sink->count("\"no_device\""), 1);
  add_engine("a", 2);
  advance(6);
  EXPECT_TRUE(status->ready());
  EXPECT_EQ(status->model().name, "fake");
  EXPECT_THAT(gateway_text(), HasSubstr("tutti_cluster_engine_places a 2"));
  EXPECT_TRUE(is_ready(open()));
  end_engine("a");
  EXPECT_FALSE(status->ready());
  EXPECT_THAT(gateway_text(), testing::Not(HasSubstr("engine_places")));
  EXPECT_THAT(gateway_text(), HasSubstr("tutti_cluster_engine_losses_total 1"));
}

TEST_F(LinksTest, AnEngineThatComesBackIsUsedAgain) {
  add_engine("a", 2);
  look_for({"a"});
  end_engine("a");
  const Log log = add_engine("a", 2);
  advance(6);
  EXPECT_TRUE(is_ready(open()));
  EXPECT_EQ(log->admitted, 1);
  EXPECT_THAT(gateway_text(), HasSubstr("tutti_cluster_engine_joins_total 2"));
}

TEST_F(LinksTest, OneThatDoesNotAnswerKeepsNoOtherWaiting) {
  silent = {"a"};
  add_engine("a", 8);
  const Log other = add_engine("b", 1);
  look_for({"a", "b"});
  EXPECT_TRUE(is_ready(open()));
  EXPECT_EQ(other->admitted, 1);
  advance(20);
  EXPECT_EQ(probes["a"], 1) << "one attempt at a time";
}

TEST_F(LinksTest, AttemptsBecomeRareWhereNobodyIs) {
  look_for({"a"});
  advance(60);
  EXPECT_GE(probes["a"], 60 / 5);
  EXPECT_LE(probes["a"], 60 / 4 + 5);
}

TEST_F(LinksTest, AnEngineWithTwoAddressesIsJoinedOnce) {
  start_engine("a");
  hosts.emplace("b", hosts.at("a"));
  add_owner("a", 2);
  look_for({"a", "b"});
  advance(5);
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_stream_places 2\n"));
}

TEST_F(LinksTest, StreamsAreSpreadOverEngines) {
  const Log a = add_engine("a", 2);
  const Log b = add_engine("b", 2);
  look_for({"a", "b"});
  std::vector<Session> sessions;
  for (int i = 0; i < 4; ++i) sessions.push_back(open());
  EXPECT_EQ(a->admitted, 2);
  EXPECT_EQ(b->admitted, 2);
  EXPECT_EQ(open().sink->count("\"full\""), 1);
}

TEST_F(LinksTest, WhatOthersTookOfAnEngineIsNotPlacedOn) {
  const Log a = add_engine("a", 4);
  const Log b = add_engine("b", 2);
  look_for({"a", "b"});
  a->admitted = 3;  // of another gateway
  advance(3);
  EXPECT_TRUE(is_ready(open()));
  EXPECT_EQ(b->admitted, 1);
}

TEST_F(LinksTest, AStreamThatAnEngineRefusesIsPlacedOnAnother) {
  const Log a = add_engine("a", 4);
  const Log b = add_engine("b", 2);
  look_for({"a", "b"});
  a->admitted = 4;  // since it was asked
  EXPECT_TRUE(is_ready(open()));
  EXPECT_EQ(b->admitted, 1);
}

TEST_F(LinksTest, AnOverloadedOwnerGetsNoNewStreams) {
  const Log a = add_engine("a", 4);
  look_for({"a"});
  a->overloaded = true;
  advance(3);
  EXPECT_EQ(open().sink->count("\"overloaded\""), 1);
}

TEST_F(LinksTest, TheStreamsOfAnEngineThatDiesGoOnWithAnother) {
  add_engine("a", 4);
  look_for({"a", "b"});
  const Session session = open();
  say(session, 1600);
  const Log other = add_engine("b", 4);
  advance(6);
  end_engine("a");
  EXPECT_EQ(other->samples.size(), 1600U) << "what was heard is said again";
  say(session, 160);
  EXPECT_EQ(other->samples.size(), 1760U);
  EXPECT_FALSE(session.sink->closed());
}

TEST_F(LinksTest, TheLossOfOneOwnerMovesItsStreamsAlone) {
  const Log first = add_engine("a", 1);
  const Log second = add_owner("a", 1);
  look_for({"a"});
  const Session x = open();
  const Session y = open();
  ASSERT_EQ(first->admitted, 1);
  ASSERT_EQ(second->admitted, 1);
  const Log spare = add_owner("a", 4);
  kill_owner(first);
  EXPECT_EQ(spare->admitted, 1);
  EXPECT_EQ(second->admitted, 1);
  EXPECT_TRUE(second->released.empty());
  EXPECT_FALSE(x.sink->closed());
  EXPECT_FALSE(y.sink->closed());
  EXPECT_THAT(gateway_text(), HasSubstr("tutti_cluster_engine_places a 5"));
}

TEST_F(LinksTest, AnOwnerThatHangsIsGivenUpAndTakenBack) {
  const Log log = add_engine("a", 4);
  look_for({"a", "b"});
  const Session session = open();
  const Log other = add_engine("b", 4);
  advance(6);
  log->hung = true;
  advance(8);
  EXPECT_EQ(other->admitted, 1);
  EXPECT_FALSE(session.sink->closed());
  EXPECT_TRUE(status->ready());
  log->hung = false;
  caf::anon_send(owners[0], tick_atom_v);
  advance(3);
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_owners{state=\"alive\"} 2"));
}

TEST_F(LinksTest, AGatewayThatDiesGivesItsPlacesBackAtOnce) {
  const Log log = add_engine("a", 4);
  look_for({"a"});
  std::vector<Session> sessions;
  for (int i = 0; i < 3; ++i) sessions.push_back(open());
  EXPECT_THAT(engine_text(), HasSubstr("tutti_cluster_gateways 1"));
  end_gateway();
  EXPECT_EQ(log->released.size(), 3U);
  EXPECT_THAT(engine_text(), HasSubstr("tutti_cluster_gateways 0"));
}

TEST_F(LinksTest, ASessionThatEndsGivesItsPlaceBack) {
  const Log log = add_engine("a", 4);
  look_for({"a"});
  Session session = open();
  session.port->on_closed();
  system.run();
  EXPECT_EQ(log->released.size(), 1U);
}

TEST_F(LinksTest, AnEngineThatStopsGivesItsStreamsUp) {
  const Log log = add_engine("a", 4);
  look_for({"a", "b"});
  const Session session = open();
  drain_engine("a");
  EXPECT_EQ(log->released.size(), 1U);
  EXPECT_FALSE(session.sink->closed()) << "it waits for another";
  EXPECT_FALSE(status->ready());
  const Log other = add_engine("b", 4);
  advance(6);
  EXPECT_EQ(other->admitted, 1);
  EXPECT_FALSE(session.sink->closed());
}

TEST_F(LinksTest, AFrameThatCannotBeDecodedEndsItsLink) {
  const Log log = add_engine("a", 4);
  look_for({"a"});
  const Session session = open();
  caf::anon_send(caf::actor_cast<FramePeer>(log->streams[0]), FrameBytes{'j', 'u', 'n', 'k'});
  system.run();
  EXPECT_THAT(engine_text(), HasSubstr("tutti_cluster_broken_frames_total 1"));
  EXPECT_EQ(log->released.size(), 1U);
  EXPECT_FALSE(status->ready());
  advance(6);
  EXPECT_TRUE(status->ready()) << "it has joined again";
  EXPECT_EQ(log->admitted, 2) << "and so has its stream";
}

TEST_F(LinksTest, AFrameOfTheWrongSideEndsItsLink) {
  const Log log = add_engine("a", 4);
  look_for({"a"});
  const Session session = open();
  send_frame(caf::actor_cast<FramePeer>(log->streams[0]), wire::Pong{});
  system.run();
  EXPECT_EQ(log->released.size(), 1U);
}

TEST_F(LinksTest, FramesOfStreamsThatAreGoneAreIgnoredAndCounted) {
  const Log log = add_engine("a", 4);
  look_for({"a"});
  const Session session = open();
  const auto link = caf::actor_cast<FramePeer>(log->streams[0]);
  send_frame(link, wire::Feed{.stream = 4711, .samples = {0.5F}, .arrival = Clock::now()});
  send_frame(link, wire::Finish{.stream = 4711, .arrival = Clock::now()});
  send_frame(link, wire::Release{.stream = 4711});
  system.run();
  EXPECT_THAT(engine_text(), HasSubstr("tutti_cluster_ignored_frames_total 2"));
  say(session, 160);
  EXPECT_EQ(log->samples.size(), 160U);
}

TEST_F(LinksTest, AnEngineOfAnotherVersionIsRefused) {
  start_engine("a", "2.0");
  add_owner("a", 4);
  look_for({"a"});
  EXPECT_FALSE(status->ready());
  EXPECT_THAT(engine_text(), HasSubstr("tutti_cluster_refused_gateways_total 1"));
  EXPECT_THAT(gateway_text(), HasSubstr("tutti_cluster_refused_engines_total 1"));
}

TEST_F(LinksTest, EnginesOfAnotherModelAreUsedOnceNoneIsLeftOfTheFirst) {
  add_engine("a", 2, 'a');
  look_for({"a", "b"});
  const Log other = add_engine("b", 8, 'b');
  advance(6);
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_stream_places 2\n"));
  end_engine("a");
  advance(6);
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_stream_places 8\n"));
  EXPECT_TRUE(is_ready(open()));
  EXPECT_EQ(other->admitted, 1);
}

TEST_F(LinksTest, AnOwnerWhoseChunksTheCreditDoesNotFitIsNotUsed) {
  start_engine("a");
  RecognizerInfo info = fake_info(4);
  info.chunk_ms = credit_ms;
  caf::anon_send(
      hosts.at("a"), join_atom_v,
      SharedOwner{.actor = replacement(4), .info = info, .identity = identity_of('a'), .model = nullptr});
  look_for({"a"});
  EXPECT_FALSE(status->ready());
}

}  // namespace
}  // namespace tutti::test
