#pragma once

#include <random>

#include "cluster/wire.hpp"

namespace tutti {

/// Frames and snapshots with values of every kind: extreme numbers, floats that are no numbers, any bytes in
/// texts, empty lists. Moments are near `now`, and sometimes none at all.
class RandomFrames {
 public:
  RandomFrames(unsigned seed, Clock::time_point now) : random_(seed), now_(now) {}

  /// Of the kind that stands at `index` in wire::Frame.
  [[nodiscard]] wire::Frame frame(size_t index);
  [[nodiscard]] StreamSnapshot snapshot();
  [[nodiscard]] size_t below(size_t count) { return random_() % count; }

 private:
  template <class T>
  [[nodiscard]] T number(T least = std::numeric_limits<T>::min());
  [[nodiscard]] float real();
  [[nodiscard]] bool coin() { return random_() % 2 == 0; }
  [[nodiscard]] std::string text();
  [[nodiscard]] std::vector<float> reals(size_t longest);
  [[nodiscard]] Clock::time_point moment();
  [[nodiscard]] RecognizerIdentity identity();
  [[nodiscard]] wire::OwnerDescription owner();
  [[nodiscard]] Update update();
  [[nodiscard]] StreamOptions options();

  std::mt19937_64 random_;
  Clock::time_point now_;
};

/// Whether all that is sent is the same to the bit.
[[nodiscard]] bool same(const wire::Frame& a, const wire::Frame& b);
/// But for the model.
[[nodiscard]] bool same(const StreamSnapshot& a, const StreamSnapshot& b);

}  // namespace tutti
