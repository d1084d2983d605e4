#include "audio/audio_file.hpp"

#include <fmt/format.h>
#include <sndfile.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>

#include "audio/coded_file.hpp"
#include "audio/pcm.hpp"

namespace tutti {
namespace {

// Bounds the interleaved buffer whatever the caller asks for.
constexpr int64_t frames_per_read = 4096;

/// What libsndfile reads a file in memory through. The callbacks get its address.
struct MemorySource {
  std::span<const std::byte> bytes;
  sf_count_t position = 0;

  [[nodiscard]] sf_count_t size() const { return static_cast<sf_count_t>(bytes.size()); }
};

MemorySource& source_of(void* user_data) { return *static_cast<MemorySource*>(user_data); }

sf_count_t memory_size(void* user_data) { return source_of(user_data).size(); }

sf_count_t memory_seek(sf_count_t offset, int whence, void* user_data) {
  MemorySource& source = source_of(user_data);
  const sf_count_t base = whence == SEEK_CUR ? source.position : whence == SEEK_END ? source.size() : 0;
  // Offsets come from the file: a sum that would overflow is out of bounds all the more.
  sf_count_t target = 0;
  if (__builtin_add_overflow(base, offset, &target) || target < 0 || target > source.size()) return -1;
  return source.position = target;
}

sf_count_t memory_read(void* out, sf_count_t count, void* user_data) {
  MemorySource& source = source_of(user_data);
  const sf_count_t size = std::clamp<sf_count_t>(count, 0, source.size() - source.position);
  if (size > 0) std::memcpy(out, source.bytes.data() + source.position, static_cast<size_t>(size));
  source.position += size;
  return size;
}

sf_count_t memory_tell(void* user_data) { return source_of(user_data).position; }

SF_VIRTUAL_IO memory_io{memory_size, memory_seek, memory_read, nullptr, memory_tell};

}  // namespace

struct AudioFile::Impl {
  struct Close {
    void operator()(SNDFILE* file) const { sf_close(file); }
  };
  MemorySource source;  // outlives the file that reads it
  std::unique_ptr<SNDFILE, Close> file;
  SF_INFO info{};
  std::vector<float> interleaved;
  std::optional<CodedFile> coded;  // instead of all of these
};

Result<AudioFile> AudioFile::open(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  if (auto stream = std::make_shared<std::ifstream>(path, std::ios::binary); *stream) {
    const CodedFile::ReadBytes read = [stream](std::span<std::byte> buffer) {
      stream->read(reinterpret_cast<char*>(buffer.data()), static_cast<std::streamsize>(buffer.size()));
      return static_cast<size_t>(stream->gcount());
    };
    std::array<std::byte, CodedFile::header_bytes> header{};
    if (CodedFile::recognizes(std::span(header).first(read(header)))) {
      stream->clear();
      stream->seekg(0);
      impl->coded.emplace(read);
      return checked(std::move(impl), path);
    }
  }
  impl->file.reset(sf_open(path.c_str(), SFM_READ, &impl->info));
  return checked(std::move(impl), path);
}

Result<AudioFile> AudioFile::open_memory(std::span<const std::byte> bytes, const std::string& name) {
  auto impl = std::make_unique<Impl>();
  if (CodedFile::recognizes(bytes.first(std::min(bytes.size(), CodedFile::header_bytes)))) {
    impl->coded.emplace([bytes](std::span<std::byte> buffer) mutable {
      const auto next = bytes.first(std::min(bytes.size(), buffer.size()));
      std::ranges::copy(next, buffer.begin());
      bytes = bytes.subspan(next.size());
      return next.size();
    });
    return checked(std::move(impl), name);
  }
  impl->source.bytes = bytes;
  impl->file.reset(sf_open_virtual(&memory_io, SFM_READ, &impl->info, &impl->source));
  return checked(std::move(impl), name);
}

Result<AudioFile> AudioFile::checked(std::unique_ptr<Impl> impl, const std::string& name) {
  if (impl->coded) {
    if (const auto begun = impl->coded->begin(); !begun) {
      return fail("bad_audio_file", fmt::format("{}: {}.", name, begun.error().message));
    }
    return AudioFile(std::move(impl));
  }
  if (!impl->file) return fail("bad_audio_file", fmt::format("{}: {}", name, sf_strerror(nullptr)));
  if (impl->info.channels > max_channels) {
    return fail("bad_audio_file",
                fmt::format("{}: {} channels: expected at most {}", name, impl->info.channels, max_channels));
  }
  return AudioFile(std::move(impl));
}

int AudioFile::sample_rate() const {
  return impl_->coded ? impl_->coded->sample_rate() : impl_->info.samplerate;
}

int AudioFile::channels() const { return impl_->coded ? 1 : impl_->info.channels; }

int64_t AudioFile::frames() const {
  // libsndfile reports an unknown length as the largest count there is.
  return impl_->info.frames == SF_COUNT_MAX ? 0 : impl_->info.frames;
}

void AudioFile::read(int64_t max_frames, std::vector<float>& out) {
  if (impl_->coded) return impl_->coded->read(max_frames, out);
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
