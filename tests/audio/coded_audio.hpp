#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "audio/audio_decoder.hpp"
#include "audio/ogg_demuxer.hpp"
#include "audio/opus_demuxer.hpp"

namespace tutti::test {

using Bytes = std::vector<std::byte>;

inline std::filesystem::path opus_data(const std::string& name) {
  return std::filesystem::path(TUTTI_TEST_DATA) / "opus" / name;
}

inline Bytes read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

inline Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Cuts `bytes` into pieces of up to `longest`, of any size where `random` is given.
inline std::vector<std::span<const std::byte>> pieces(std::span<const std::byte> bytes, size_t longest,
                                                      std::mt19937* random = nullptr) {
  std::vector<std::span<const std::byte>> all;
  while (!bytes.empty()) {
    const size_t size = random ? std::uniform_int_distribution<size_t>(1, longest)(*random) : longest;
    all.push_back(bytes.first(std::min(size, bytes.size())));
    bytes = bytes.subspan(all.back().size());
  }
  return all;
}

/// What a decoder made of pieces of bytes, and why it stopped.
struct Decoded {
  std::vector<float> samples;
  int sample_rate = 0;
  std::string error;
};

inline Decoded decode(AudioDecoder& decoder, const std::vector<std::span<const std::byte>>& all) {
  Decoded result;
  for (std::span<const std::byte> piece : all) {
    while (!piece.empty() || decoder.has_more()) {
      const size_t before = result.samples.size();
      const auto decoded = decoder.decode(piece, result.samples);
      if (!decoded) {
        result.error = decoded.error().message;
        return result;
      }
      const size_t made = result.samples.size() - before;
      if (made == 0) continue;
      EXPECT_LE(made * 1000, static_cast<size_t>(decoder.sample_rate()) * AudioDecoder::longest_piece_ms);
    }
  }
  result.sample_rate = decoder.sample_rate();
  return result;
}

inline Decoded decode_container(std::span<const std::byte> bytes) {
  return decode(*make_audio_decoder({.coding = AudioCoding::container}), {bytes});
}

/// Everything a demuxer finds, and why it stopped.
struct Demuxed {
  std::vector<PlacedPacket> packets;
  std::string error;

  /// Of the audio, at 48 kHz.
  [[nodiscard]] int64_t samples() const {
    int64_t sum = 0;
    for (const PlacedPacket& packet : packets) {
      sum += packet.lost + opus_packet_samples(packet.bytes) - packet.discarded;
      if (packet.begins) sum -= packet.begins->pre_skip;
    }
    return sum;
  }
};

inline Demuxed demux(OpusDemuxer& demuxer, const std::vector<std::span<const std::byte>>& all) {
  Demuxed result;
  for (std::span<const std::byte> piece : all) {
    while (true) {
      PlacedPacket packet;
      const auto found = demuxer.next(piece, packet);
      if (!found) {
        result.error = found.error().message;
        return result;
      }
      if (!*found) break;
      result.packets.push_back(std::move(packet));
    }
    EXPECT_TRUE(piece.empty());
  }
  return result;
}

template <class Demuxer>
Demuxed demux(std::span<const std::byte> bytes) {
  Demuxer demuxer;
  return demux(demuxer, {bytes});
}

inline double energy(std::span<const float> samples) {
  double sum = 0;
  for (const float sample : samples) sum += double{sample} * sample;
  return sum;
}

/// Of `b` as an approximation of `a`, in dB.
inline double signal_to_noise(std::span<const float> a, std::span<const float> b) {
  double noise = 1e-20;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    noise += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return 10 * std::log10(energy(a) / noise);
}

}  // namespace tutti::test
