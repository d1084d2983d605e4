#pragma once

#include <omp.h>

namespace tutti::cpu {

/// Makes this thread alone do what oneDNN plans and runs in the meantime. A primitive is planned for the
/// number of threads it finds when it is made; owners have set theirs to one, a thread that loads a model may
/// not have.
class SingleThreaded {
 public:
  SingleThreaded() : threads_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThreaded() { omp_set_num_threads(threads_); }
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int threads_;
};

}  // namespace tutti::cpu
