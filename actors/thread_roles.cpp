#include "actors/thread_roles.hpp"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tutti {
namespace {

constexpr int owner_nice = 5;
constexpr int loading_nice = 19;

/// Linux: the priority of a thread id is that thread's alone.
void give_way(int nice, const char* whose) {
  if (setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice) == 0) return;
  spdlog::warn("{} thread keeps its priority: {}", whose, std::strerror(errno));
}

}  // namespace

void prepare_owner_thread(std::optional<int> core) {
  omp_set_num_threads(1);
  give_way(owner_nice, "an owner");
  if (!core) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<size_t>(*core), &cores);
  const int error = pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
  if (error != 0) spdlog::warn("an owner thread is not pinned to core {}: {}", *core, std::strerror(error));
}

void prepare_loading_thread() {
  omp_set_num_threads(1);
  give_way(loading_nice, "a loading");
}

void prepare_upload_thread() {
  constexpr sched_param none{};
  if (sched_setscheduler(gettid(), SCHED_IDLE, &none) == 0) return;
  spdlog::warn("an upload thread keeps its priority: {}", std::strerror(errno));
}

}  // namespace tutti
