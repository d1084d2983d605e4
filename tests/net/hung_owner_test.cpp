#include <gtest/gtest.h>

#include "actors/metrics.hpp"
#include "actors/service.hpp"
#include "tests/engine/engine_fixture.hpp"
#include "tests/engine/faulty_ops.hpp"
#include "tests/net/fake_gateway.hpp"
#include "tests/net/test_client.hpp"

namespace tutti {
namespace {

TEST(HungOwner, DoesNotKeepPingsAndRequestsWaiting) {
  const auto plan = std::make_shared<FaultPlan>();
  plan->hangs = true;
  plan->ticks_left = 0;
  const auto metrics = std::make_shared<Metrics>();
  ServiceOptions options;
  options.owners.push_back({.device = "test",
                            .make_engine = [plan] { return make_faulty_engine(plan); },
                            .core = {},
                            .metrics = metrics});
  options.placement.owner_timeout = std::chrono::hours(1);
  RecognitionService service(options, metrics);
  {
    NetServer server(TestServer::on_free_port({}), service.gateway(), service.status(), service.uploads(),
                     service.subscriptions());
    server.start();
    service.listening();
    TestClient client(server.address());
    ASSERT_EQ(client.upgrade("/v1/stream").status, 101);
    ASSERT_TRUE(client.read_message());  // ready
    client.send_frame(TestClient::binary, std::string(2 * 16000, '\0'));
    ASSERT_TRUE(eventually([&] { return plan->ticks_left < 0; })) << "the owner is not in a tick";
    client.send_frame(TestClient::ping, "are you there?");
    const auto answer = client.read_message();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->opcode, TestClient::pong);
    EXPECT_EQ(answer->payload, "are you there?");
    EXPECT_EQ(TestClient(server.address()).request("GET", "/healthz").status, 200);
    EXPECT_EQ(TestClient(server.address()).request("GET", "/metrics").status, 200);
    plan->released = true;
    plan->released.notify_all();
  }
}

}  // namespace
}  // namespace tutti
