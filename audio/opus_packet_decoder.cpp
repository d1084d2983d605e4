#include "audio/opus_packet_decoder.hpp"

#include <fmt/format.h>
#include <opus/opus.h>

#include <algorithm>
#include <stdexcept>

#include "audio/pcm.hpp"

namespace tutti {
namespace {

constexpr int clock_ratio = opus_clock_rate / OpusPacketDecoder::sample_rate;
constexpr int64_t longest_packet = OpusPacketDecoder::sample_rate * 120 / 1000;
// Opus conceals whole frames, of which the shortest have 2.5 ms. Beyond 60 ms it has faded out.
constexpr int64_t shortest_frame = OpusPacketDecoder::sample_rate / 400;
constexpr int64_t longest_concealment = OpusPacketDecoder::sample_rate * 60 / 1000;

}  // namespace

void OpusPacketDecoder::Destroy::operator()(::OpusDecoder* state) const { opus_decoder_destroy(state); }

OpusPacketDecoder::OpusPacketDecoder() : scratch_(longest_packet) {
  int error = OPUS_OK;
  state_.reset(opus_decoder_create(sample_rate, 1, &error));
  if (error != OPUS_OK) throw std::runtime_error(fmt::format("Opus decoder: {}", opus_strerror(error)));
}

void OpusPacketDecoder::begin(const OpusHead& head) {
  opus_decoder_ctl(state_.get(), OPUS_RESET_STATE);
  opus_decoder_ctl(state_.get(), OPUS_SET_GAIN(head.gain));
  skip_ = head.pre_skip;
  concealed_ = 0;
  has_decoded_ = false;
}

bool OpusPacketDecoder::decode(std::span<const std::byte> packet, int64_t discarded,
                               std::vector<float>& out) {
  const int64_t length = packet.empty() ? 0 : opus_packet_samples(packet);
  if (length == 0) return false;
  if (discarded >= length) {  // is not decoded: whatever claims to be of no use shall cost nothing
    skip_ -= std::min(skip_, length);
    return true;
  }
  const int samples = run(packet, longest_packet);
  if (samples <= 0) return false;
  has_decoded_ = true;
  concealed_ = 0;
  const int64_t skipped = std::min(skip_, length);
  skip_ -= skipped;
  kept_ += std::max<int64_t>(length - skipped - discarded, 0);
  const int64_t first = skipped / clock_ratio;
  const int64_t count = std::min(kept_ / clock_ratio - emitted_, samples - first);
  append(first, count, out);
  emitted_ += count;
  return true;
}

void OpusPacketDecoder::conceal(int64_t samples, std::vector<float>& out) {
  const int64_t heard = has_decoded_ ? std::clamp<int64_t>(longest_concealment - concealed_, 0, samples) : 0;
  int64_t made = 0;
  if (const int64_t whole = heard / shortest_frame * shortest_frame; whole > 0) {
    made = std::max(run({}, whole), 0);
    append(0, made, out);
  }
  out.resize(out.size() + static_cast<size_t>(samples - made), 0.0F);
  concealed_ += samples;
}

int OpusPacketDecoder::run(std::span<const std::byte> packet, int64_t most_samples) {
  const auto* const bytes = packet.empty() ? nullptr : reinterpret_cast<const unsigned char*>(packet.data());
  return opus_decode_float(state_.get(), bytes, static_cast<opus_int32>(packet.size()), scratch_.data(),
                           static_cast<int>(most_samples), 0);
}

void OpusPacketDecoder::append(int64_t first, int64_t count, std::vector<float>& out) const {
  for (const float sample :
       std::span(scratch_).subspan(static_cast<size_t>(first), static_cast<size_t>(count))) {
    out.push_back(clip_sample(sample));
  }
}

}  // namespace tutti
