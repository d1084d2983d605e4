#pragma once

#include <chrono>

namespace tutti {

/// One line on a terminal that shows how far a job is; silent where stderr is not a terminal.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `done` and `total` in seconds of audio; total 0 = not known.
  void show(double done, double total);
  /// Takes the line away, so that something else can be printed.
  void clear();

 private:
  bool visible_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace tutti
