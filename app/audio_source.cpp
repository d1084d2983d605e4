#include "app/audio_source.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <utility>
#include <vector>

#include "audio/audio_file.hpp"
#include "config/result.hpp"

namespace tutti {
namespace {

class FileSource final : public AudioSource {
 public:
  explicit FileSource(AudioFile file) : file_(std::move(file)) {}

  [[nodiscard]] int sample_rate() const override { return file_.sample_rate(); }

  State read(int64_t max_samples, std::string& bytes) override {
    file_.read(max_samples, samples_);
    bytes = to_s16le(samples_);
    return samples_.empty() ? State::end : State::data;
  }

 private:
  AudioFile file_;
  std::vector<float> samples_;
};

class RawSource final : public AudioSource {
 public:
  RawSource(int descriptor, int sample_rate) : descriptor_(descriptor), sample_rate_(sample_rate) {}

  [[nodiscard]] int sample_rate() const override { return sample_rate_; }

  State read(int64_t max_samples, std::string& bytes) override {
    bytes.clear();
    pollfd entry{descriptor_, POLLIN, 0};
    if (::poll(&entry, 1, 0) <= 0) return State::waiting;
    bytes.resize(static_cast<size_t>(max_samples) * sizeof(int16_t));
    const ssize_t count = ::read(descriptor_, bytes.data(), bytes.size());
    const bool interrupted = count < 0 && (errno == EINTR || errno == EAGAIN);
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (interrupted) return State::waiting;
    return count > 0 ? State::data : State::end;
  }

 private:
  int descriptor_;
  int sample_rate_;
};

}  // namespace

std::string to_s16le(std::span<const float> samples) {
  std::string bytes;
  bytes.reserve(samples.size() * 2);
  for (const float sample : samples) {
    const long scaled = std::clamp(std::lrint(sample * 32768.0F), -32768L, 32767L);
    const auto word = std::bit_cast<uint16_t>(static_cast<int16_t>(scaled));
    bytes += static_cast<char>(word & 0xFFU);
    bytes += static_cast<char>(word >> 8U);
  }
  return bytes;
}

std::unique_ptr<AudioSource> open_audio_file(const std::string& path) {
  auto file = AudioFile::open(path);
  if (!file) throw SetupError(file.error().message);
  return std::make_unique<FileSource>(std::move(*file));
}

std::unique_ptr<AudioSource> open_raw_audio(int descriptor, int sample_rate) {
  return std::make_unique<RawSource>(descriptor, sample_rate);
}

}  // namespace tutti
