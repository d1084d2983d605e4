#include "actors/thread_roles.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>

namespace tutti {
namespace {

int niceness() { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); }

TEST(ThreadRoles, AnOwnerGivesWayToTheThreadsThatSomebodyWaitsFor) {
  const int before = niceness();
  int of_owner = before;
  std::thread([&] {
    prepare_owner_thread(std::nullopt);
    of_owner = niceness();
  }).join();
  EXPECT_GE(of_owner, 5);
  EXPECT_EQ(niceness(), before);
}

TEST(ThreadRoles, LoadingAModelGivesWayToOwners) {
  int of_loader = 0;
  std::thread([&] {
    prepare_loading_thread();
    of_loader = niceness();
  }).join();
  EXPECT_EQ(of_loader, 19);
}

TEST(ThreadRoles, AnUploadRunsWhenNoOtherThreadWantsTo) {
  int policy = SCHED_OTHER;
  std::thread([&] {
    prepare_upload_thread();
    policy = sched_getscheduler(gettid());
  }).join();
  EXPECT_EQ(policy, SCHED_IDLE);
  EXPECT_EQ(sched_getscheduler(gettid()), SCHED_OTHER);
}

}  // namespace
}  // namespace tutti
