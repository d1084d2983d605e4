#include <chrono>
#include <vector>

#include "cluster/wire.hpp"
#include "tests/config/broken_rule.hpp"
#include "tests/fuzz/targets.hpp"

namespace tutti::fuzz {

void run_cluster_frame(std::span<const std::byte> input) {
  const Clock::time_point now = Clock::time_point{} + std::chrono::hours(1000);
  const Result<wire::Frame> frame = wire::decode(input, now);
  if (!frame) {
    require(frame.error().code == "bad_frame" && !frame.error().message.empty(), "a refusal says why");
    require(frame.error().message.size() < 1000, "a refusal does not quote all of its input");
    return;
  }
  const std::vector<std::byte> written = wire::encode(*frame, now);
  require(written.size() <= input.size(), "a frame has nothing that was not sent");
  const Result<wire::Frame> again = wire::decode(written, now);
  require(again && wire::encode(*again, now) == written, "what was read can be sent on, and is the same");
}

}  // namespace tutti::fuzz
