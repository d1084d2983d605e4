#include <gmock/gmock.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <future>
#include <optional>
#include <thread>

#include "actors/metrics.hpp"
#include "cluster/cluster.hpp"
#include "cluster/dialer.hpp"
#include "tests/actors/service_client.hpp"
#include "tests/cluster/test_authority.hpp"
#include "tests/engine/engine_fixture.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

/// Gateways and engines as they are, but in one process: they meet at sockets of this machine.
class ServicesTest : public testing::Test {
 protected:
  /// A service in a cluster. Without owners it has those of engines.
  struct Member {
    std::shared_ptr<Cluster> cluster;
    std::unique_ptr<RecognitionService> service;
  };

  std::unique_ptr<Member> start(ClusterOptions options, int owners) {
    options.version = "1.0";
    auto member = std::make_unique<Member>();
    std::optional<ClusterModel> model;
    if (owners > 0) model = {.identity = identity, .model = bundled_model()};
    member->cluster = std::make_shared<Cluster>(std::move(options), std::move(model));
    ServiceOptions service;
    for (int i = 0; i < owners; ++i) {
      service.owners.push_back({.device = "cpu",
                                .model_identity = to_string(identity),
                                .make_engine = [] { return make_engine(); },
                                .core = {},
                                .snapshots = std::chrono::milliseconds(1500),
                                .metrics = metrics});
    }
    service.placement.owners_may_join = owners == 0;
    service.extension = member->cluster;
    member->service = std::make_unique<RecognitionService>(service, metrics);
    member->service->listening();
    return member;
  }

  std::unique_ptr<Member> start_engine(const TestAuthority& signer, int owners = 1) {
    ClusterOptions options;
    options.bind = "127.0.0.1:0";
    options.name = "engine";
    options.credentials = signer.credentials("engine");
    return start(std::move(options), owners);
  }

  std::unique_ptr<Member> start_gateway(const TestAuthority& signer, std::vector<std::string> engines) {
    ClusterOptions options;
    options.engines = std::move(engines);
    options.name = "gateway";
    options.credentials = signer.credentials("gateway");
    return start(std::move(options), 0);
  }

  static void wait_until_ready(const Member& member) {
    while (!member.service->status().ready()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

  /// What a client is told of two utterances with a command between them, but partials: which of them come
  /// depends on the time. `meanwhile` happens in the middle.
  static std::vector<std::string> speak(
      Member& member, const std::function<void()>& meanwhile = [] {}) {
    Client client(member.service->gateway(), "endpointing=500&vad_events=true");
    client.send(pcm(clip("libri-02.flac")));
    client.send_text(R"({"type":"finalize"})");
    meanwhile();
    client.send(pcm(clip("ocean-24.flac")));
    client.send_text(R"({"type":"eof"})");
    std::vector<std::string> told;
    for (const std::string& message : client.wait_until_closed().messages) {
      if (message.find("\"partial\"") == std::string::npos) told.push_back(message);
    }
    return told;
  }

  static Result<void> probe(const ClusterCredentials& credentials, const std::string& address) {
    const ClusterIdentity identity(credentials);
    std::promise<Result<void>> outcome;
    Dialer dialer(identity.files());
    dialer.probe(address, [&](const Result<void>& found) { outcome.set_value(found); });
    return outcome.get_future().get();
  }

  RecognizerIdentity identity{.model = {}, .settings = "as the tests do"};
  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
  TestAuthority authority;
};

TEST_F(ServicesTest, AStreamSaysTheSameOnAnEngineElsewhereAndWhenThatDies) {
  std::vector<std::string> expected;
  {
    ClusterOptions alone;
    alone.bind = "127.0.0.1:0";
    alone.credentials = authority.credentials("alone");
    expected = speak(*start(std::move(alone), 1));
  }
  ASSERT_GE(expected.size(), 6U);

  auto first = start_engine(authority);
  const auto gateway = start_gateway(authority, {first->cluster->address()});
  wait_until_ready(*gateway);
  EXPECT_EQ(speak(*gateway), expected);

  const auto second = start_engine(authority);
  const auto other = start_gateway(authority, {first->cluster->address(), second->cluster->address()});
  wait_until_ready(*other);
  EXPECT_EQ(speak(*other, [&] { first.reset(); }), expected);
}

TEST_F(ServicesTest, AMemberOfTheClusterIsSpokenTo) {
  const auto engine = start_engine(authority);
  EXPECT_TRUE(probe(authority.credentials("gateway"), engine->cluster->address()));
}

TEST_F(ServicesTest, AMemberOfAnotherClusterIsRejectedByBothSides) {
  const auto engine = start_engine(authority);
  const TestAuthority other("another cluster");
  const Result<void> outcome = probe(other.credentials("gateway"), engine->cluster->address());
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("TLS"));

  // A gateway that would take any engine is not taken by this one.
  ClusterCredentials credulous = other.credentials("gateway");
  credulous.ca = authority.credentials("gateway").ca;
  std::promise<Result<void>> answer;
  Dialer dialer(credulous);
  dialer.probe(engine->cluster->address(), [&](const Result<void>& found) { answer.set_value(found); });
  EXPECT_FALSE(answer.get_future().get());
  EXPECT_THAT(engine->service->status().metrics(), HasSubstr("tutti_open_streams 0"));
}

TEST_F(ServicesTest, APeerWithoutACertificateIsRejected) {
  namespace asio = boost::asio;
  const auto engine = start_engine(authority);
  const HostPort at = split_host_port(engine->cluster->address());
  asio::ssl::context tls(asio::ssl::context::tls_client);
  asio::io_context io;
  asio::ssl::stream<asio::ip::tcp::socket> stream(io, tls);
  stream.lowest_layer().connect({asio::ip::make_address(at.host), static_cast<uint16_t>(std::stoi(at.port))});
  boost::system::error_code error;
  stream.handshake(asio::ssl::stream_base::client, error);
  std::array<char, 1> byte{};
  if (!error) asio::read(stream, asio::buffer(byte), error);
  EXPECT_TRUE(error) << "it was told something";
}

TEST_F(ServicesTest, NobodyListensOnAPublicAddressByAccident) {
  ClusterOptions options;
  options.bind = "0.0.0.0:0";
  options.credentials = authority.credentials("engine");
  EXPECT_THROW(Cluster(options, std::nullopt), SetupError);
}

TEST_F(ServicesTest, APortThatIsTakenIsNamed) {
  const auto engine = start_engine(authority);
  ClusterOptions options;
  options.bind = engine->cluster->address();
  options.credentials = authority.credentials("engine");
  try {
    start(std::move(options), 1);
    FAIL() << "it started";
  } catch (const SetupError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cluster.bind = " + engine->cluster->address()));
  }
}

}  // namespace
}  // namespace tutti::test
