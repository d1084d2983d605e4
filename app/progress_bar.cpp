#include "app/progress_bar.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace tutti {

ProgressBar::ProgressBar() : visible_(isatty(STDERR_FILENO) == 1) {}
ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::show(double done, double total) {
  const auto now = std::chrono::steady_clock::now();
  if (!visible_ || now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  constexpr size_t width = 30;
  const double share = total > 0 ? std::min(1.0, done / total) : 0;
  const auto filled = static_cast<size_t>(share * width);
  const double speed = done / std::max(1e-3, std::chrono::duration<double>(now - start_).count());
  fmt::print(stderr, "\r[{}{}] {:3.0f} %  {:.0f} s of audio, {:.0f}x real time ", std::string(filled, '#'),
             std::string(width - filled, '.'), 100 * share, done, speed);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace tutti
