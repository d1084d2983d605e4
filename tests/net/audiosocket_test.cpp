#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/result.hpp"
#include "tests/net/fake_gateway.hpp"
#include "tests/net/test_client.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

NetOptions with_audiosocket() {
  NetOptions options;
  options.audiosocket = "127.0.0.1:0";
  return options;
}

/// A server with a client that calls.
struct Call {
  explicit Call(const NetOptions& options = with_audiosocket(), int64_t credit = 1 << 20)
      : test(options),
        client((test.gateway.initial_credit = credit, test.server.listeners().back().address)) {}

  TestServer test;
  TestClient client;
};

TEST(AudioSocket, HasAnAddressOfItsOwn) {
  TestServer test(with_audiosocket());
  const auto listeners = test.server.listeners();
  ASSERT_EQ(listeners.size(), 2U);
  EXPECT_FALSE(listeners[0].is_audiosocket);
  EXPECT_TRUE(listeners[1].is_audiosocket);
  EXPECT_EQ(TestServer().server.listeners().size(), 1U);
}

TEST(AudioSocket, HandsOnWhatItReads) {
  Call call;
  const std::string bytes = std::string("\x10\x75\x30", 3) + std::string(30'000, 'a');
  call.client.send(bytes);
  const auto probe = call.test.gateway.next();
  EXPECT_EQ(probe->request.dialect_name, "audiosocket");
  EXPECT_EQ(probe->sink->address(), "127.0.0.1");
  EXPECT_TRUE(eventually([&] { return probe->audio_bytes == static_cast<int64_t>(bytes.size()); }));
  EXPECT_EQ(probe->audio_hash, hash_bytes(bytes.data(), bytes.size()));
  EXPECT_EQ(call.test.server.stats().open_sessions, 1);
}

TEST(AudioSocket, IsReadOnlyAsFarAsItsCredit) {
  Call call(with_audiosocket(), 1000);
  const auto probe = call.test.gateway.next();
  call.client.send(std::string(1700, 'a'));
  EXPECT_TRUE(eventually([&] { return probe->audio_bytes == 1000; }));
  EXPECT_EQ(call.test.server.stats().read_stalls, 1);
  probe->sink->grant(600);
  EXPECT_TRUE(eventually([&] { return probe->audio_bytes == 1600; }));
  EXPECT_EQ(call.test.server.stats().read_stalls, 2);
  EXPECT_EQ(probe->closed, 0);
}

TEST(AudioSocket, ToldTheEndOnceWhenTheCallerIsGone) {
  for (const bool is_reset : {false, true}) {
    Call call;
    const auto probe = call.test.gateway.next();
    call.client.send("abc");
    EXPECT_TRUE(eventually([&] { return probe->audio_bytes == 3; }));
    is_reset ? call.client.reset() : call.client.close();
    EXPECT_TRUE(eventually([&] { return probe->closed == 1; }));
    // What the stream still says has no effect.
    probe->sink->send("final", false);
    probe->sink->grant(100);
    probe->sink->close(CloseReason::normal, "");
    probe->sink.reset();
    EXPECT_TRUE(eventually([&] { return call.test.server.stats().open_sessions == 0; }));
    EXPECT_EQ(probe->closed, 1);
  }
}

TEST(AudioSocket, IsClosedByItsStream) {
  Call call;
  const auto probe = call.test.gateway.next();
  probe->sink->send("there is no way back", false);
  probe->sink->close(CloseReason::policy, "not AudioSocket");
  EXPECT_TRUE(call.client.at_end());
  EXPECT_TRUE(eventually([&] { return probe->closed == 1; }));
}

TEST(AudioSocket, OfAStreamThatDiedIsClosed) {
  Call call;
  call.test.gateway.next()->sink.reset();
  EXPECT_TRUE(call.client.at_end());
}

TEST(AudioSocket, ThatIsOpenForTooLongIsClosed) {
  NetOptions options = with_audiosocket();
  options.max_stream = std::chrono::milliseconds(50);
  Call call(options);
  const auto probe = call.test.gateway.next();
  EXPECT_TRUE(call.client.at_end());
  EXPECT_TRUE(eventually([&] { return probe->closed == 1; }));
  EXPECT_EQ(call.test.server.stats().ended_sessions, 1);
}

TEST(AudioSocket, ThatSaysNothingIsClosed) {
  NetOptions options = with_audiosocket();
  options.handshake_timeout = std::chrono::milliseconds(50);
  options.idle_timeout = std::chrono::hours(1);
  Call mute(options);
  EXPECT_TRUE(mute.client.at_end());
  options.idle_timeout = std::chrono::milliseconds(50);
  options.handshake_timeout = std::chrono::hours(1);
  Call hushed(options);
  hushed.client.send("abc");
  EXPECT_TRUE(hushed.client.at_end());
  EXPECT_EQ(hushed.test.server.stats().idle_sessions, 1);
  EXPECT_EQ(hushed.test.gateway.next()->closed, 1);
}

TEST(AudioSocket, IsRefusedWhereAllSessionsAreTaken) {
  NetOptions options = with_audiosocket();
  options.max_sessions = 1;
  Call call(options);
  const auto probe = call.test.gateway.next();
  TestClient second(call.test.server.listeners().back().address);
  EXPECT_TRUE(second.at_end());
  EXPECT_EQ(call.test.server.stats().refused_sessions, 1);
  EXPECT_EQ(probe->closed, 0);
}

TEST(AudioSocket, EndsWithTheServer) {
  Call call;
  const auto probe = call.test.gateway.next();
  call.test.server.stop();
  EXPECT_TRUE(call.client.at_end());
  EXPECT_EQ(probe->closed, 1);
}

TEST(AudioSocket, IsForThisMachineAloneUnlessToldOtherwise) {
  NetOptions options;
  options.audiosocket = "0.0.0.0:9092";
  // A key for the other port says nothing about this one.
  options.credentials = Credentials({{.name = "a", .digest = api_key_digest("a")}});
  EXPECT_THAT([&] { check_listener(options); },
              ThrowsMessage<SetupError>(
                  HasSubstr("will not listen on 0.0.0.0:9092 for everybody who can reach it: AudioSocket has "
                            "neither keys nor TLS")));
  options.insecure = true;
  EXPECT_NO_THROW(check_listener(options));
  options.audiosocket = "9092";
  EXPECT_THAT([&] { check_listener(options); },
              ThrowsMessage<SetupError>(HasSubstr("cannot listen on \"9092\": not ADDRESS:PORT")));
}

TEST(AudioSocket, OnAPortThatIsTakenIsRefused) {
  TestServer taken;
  FakeGateway gateway;
  FakeStatus status;
  FakeUploads uploads;
  FakeSubscriptions subscriptions;
  NetOptions options = TestServer::on_free_port(with_audiosocket());
  options.audiosocket = taken.server.address();
  EXPECT_THAT([&] { NetServer(options, gateway, status, uploads, subscriptions); },
              ThrowsMessage<SetupError>("cannot listen on " + taken.server.address() +
                                        ": address already in use; choose another with --audiosocket"));
}

}  // namespace
}  // namespace tutti
