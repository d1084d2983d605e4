#include "audio/audio_file.hpp"

#include <fmt/format.h>
#include <sndfile.h>

#include <algorithm>

#include "audio/pcm.hpp"

namespace tutti {
namespace {

// Bounds the interleaved buffer whatever the caller asks for.
constexpr int64_t frames_per_read = 4096;

}  // namespace

struct AudioFile::Impl {
  struct Close {
    void operator()(SNDFILE* file) const { sf_close(file); }
  };
  std::unique_ptr<SNDFILE, Close> file;
  SF_INFO info{};
  std::vector<float> interleaved;
};

Result<AudioFile> AudioFile::open(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  impl->file.reset(sf_open(path.c_str(), SFM_READ, &impl->info));
  if (!impl->file) return fail("bad_audio_file", fmt::format("{}: {}", path, sf_strerror(nullptr)));
  if (impl->info.channels > max_channels) {
    return fail("bad_audio_file",
                fmt::format("{}: {} channels: expected at most {}", path, impl->info.channels, max_channels));
  }
  return AudioFile(std::move(impl));
}

int AudioFile::sample_rate() const { return impl_->info.samplerate; }
int AudioFile::channels() const { return impl_->info.channels; }

int64_t AudioFile::frames() const {
  // libsndfile reports an unknown length as the largest count there is.
  return impl_->info.frames == SF_COUNT_MAX ? 0 : impl_->info.frames;
}

void AudioFile::read(int64_t max_frames, std::vector<float>& out) {
  out.clear();
  const auto channels = static_cast<size_t>(impl_->info.channels);
  impl_->interleaved.resize(frames_per_read * channels);
  while (max_frames > 0) {
    const int64_t count =
        sf_readf_float(impl_->file.get(), impl_->interleaved.data(), std::min(max_frames, frames_per_read));
    if (count <= 0) return;
    max_frames -= count;
    const float* frame = impl_->interleaved.data();
    for (int64_t i = 0; i < count; ++i, frame += channels) {
      float sum = 0;
      for (size_t c = 0; c < channels; ++c) sum += clip_sample(frame[c]);
      out.push_back(sum / static_cast<float>(channels));
    }
  }
}

AudioFile::AudioFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AudioFile::AudioFile(AudioFile&&) noexcept = default;
AudioFile& AudioFile::operator=(AudioFile&&) noexcept = default;
AudioFile::~AudioFile() = default;

}  // namespace tutti
