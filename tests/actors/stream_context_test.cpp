#include "actors/stream_context.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/fake_owner.hpp"
#include "tests/actors/test_system.hpp"

namespace tutti::test {
namespace {

using testing::ElementsAre;

class StreamContextTest : public testing::Test {
 protected:
  void TearDown() override {
    caf::anon_send_exit(owner, caf::exit_reason::user_shutdown);
    system.run();
  }
  StreamContext lease(int slot) { return {owner, {slot, 1}, {}, fake_info(8)}; }

  TestSystem system;
  std::shared_ptr<OwnerLog> log = std::make_shared<OwnerLog>();
  GpuOwner owner = system->spawn(fake_owner, log);
};

TEST_F(StreamContextTest, ReleasesOnceHoweverOftenItIsMoved) {
  {
    StreamContext first = lease(3);
    StreamContext second = std::move(first);
    StreamContext third = std::move(second);
  }
  system.run();
  EXPECT_THAT(log->released, ElementsAre(StreamKey{3, 1}));
}

TEST_F(StreamContextTest, ReleasesWhatItHeldWhenItIsAssigned) {
  StreamContext context = lease(1);
  context = lease(2);
  system.run();
  EXPECT_THAT(log->released, ElementsAre(StreamKey{1, 1}));
}

TEST_F(StreamContextTest, IsReleasedWithAMessageNobodyOpened) {
  caf::message message = caf::make_message(Admission(std::make_shared<StreamContext>(lease(4))));
  system.run();
  EXPECT_TRUE(log->released.empty());
  message.reset();
  system.run();
  EXPECT_THAT(log->released, ElementsAre(StreamKey{4, 1}));
}

}  // namespace
}  // namespace tutti::test
