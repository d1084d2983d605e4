#pragma once

#include <chrono>

namespace tutti {

using Clock = std::chrono::steady_clock;

}  // namespace tutti
