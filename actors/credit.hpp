#pragma once

#include <cstdint>

namespace tutti {

/// How much audio a session may send. A session starts with `initial_bytes`, and gets back what the engine
/// consumed. Both sides are cumulative 64-bit counts, so rounding between the client's clock and the model's
/// never adds up, and a stream may go on for years.
class Credit {
 public:
  /// `window_ms` of audio at `input_rate`, in sample frames of `frame_bytes`.
  Credit(int window_ms, int input_rate, int model_rate, int frame_bytes);

  /// Granted before anything is consumed.
  [[nodiscard]] int64_t initial_bytes() const { return initial_bytes_; }
  /// The window in samples at the model's rate: what the engine may have waiting.
  [[nodiscard]] int64_t window_samples() const { return window_samples_; }

  /// Granted again in all, for what was consumed.
  [[nodiscard]] int64_t returned_bytes() const { return returned_bytes_; }

  /// What `samples` at the model's rate were at the client's.
  [[nodiscard]] int64_t bytes_of(int64_t samples) const {
    return samples * input_rate_ / model_rate_ * frame_bytes_;
  }

  /// Notes that the engine consumed `samples` more; returns the bytes to grant for them.
  [[nodiscard]] int64_t consume(int64_t samples);

 private:
  int input_rate_;
  int model_rate_;
  int frame_bytes_;
  int64_t initial_bytes_;
  int64_t window_samples_;
  int64_t consumed_samples_ = 0;
  int64_t returned_bytes_ = 0;
};

/// Throws SetupError unless `credit_ms` can work with chunks of `chunk_ms`: a stream whose credit is used up
/// before a chunk is complete would wait forever, and what it allows (to the next piece of conversion) must
/// fit the engine's buffer of `max_buffered_ms`.
void check_credit(int credit_ms, int chunk_ms, int max_buffered_ms);

}  // namespace tutti
