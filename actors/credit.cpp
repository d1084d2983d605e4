#include "actors/credit.hpp"

#include <fmt/format.h>

#include "actors/audio_intake.hpp"
#include "config/result.hpp"

namespace tutti {

Credit::Credit(int window_ms, int input_rate, int model_rate, int frame_bytes)
    : input_rate_(input_rate),
      model_rate_(model_rate),
      frame_bytes_(frame_bytes),
      initial_bytes_(int64_t{window_ms} * input_rate / 1000 * frame_bytes),
      window_samples_(int64_t{window_ms} * model_rate / 1000) {}

int64_t Credit::consume(int64_t samples) {
  consumed_samples_ += samples;
  const int64_t due = bytes_of(consumed_samples_);
  const int64_t grant = due - returned_bytes_;
  returned_bytes_ = due;
  return grant;
}

void check_credit(int credit_ms, int chunk_ms, int max_buffered_ms) {
  const int shortest = 2 * chunk_ms + 1;
  const int longest = max_buffered_ms - 2 * AudioIntake::piece_ms;
  if (credit_ms >= shortest && credit_ms <= longest) return;
  throw SetupError(fmt::format(
      "credit_ms is {}, but must be {} to {}: more than two chunks, and {} ms less than max_buffered_ms ({})",
      credit_ms, shortest, longest, 2 * AudioIntake::piece_ms, max_buffered_ms));
}

}  // namespace tutti
