#include <algorithm>
#include <cmath>
#include <vector>

#include "actors/audio_intake.hpp"
#include "audio/audio_decoder.hpp"
#include "audio/audio_file.hpp"
#include "audio/pcm.hpp"
#include "tests/config/broken_rule.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/fuzz/targets.hpp"

namespace tutti::fuzz {
namespace {

// As long as an input may unfold to: more of the same shows nothing new.
constexpr int64_t max_frames = 1 << 18;

PcmFormat choose_format(Choices& choices) {
  constexpr Encoding encodings[] = {Encoding::mulaw, Encoding::alaw, Encoding::pcm_s16le,
                                    Encoding::pcm_f32le};
  PcmFormat format{.encoding = encodings[choices.pick(4)], .channels = 1 + choices.pick(max_channels)};
  if (choices.pick(2) == 1) {
    format.mix = ChannelMix::pick;
    format.picked_channel = choices.pick(format.channels);
  }
  return format;
}

bool are_samples(std::span<const float> samples) {
  return std::ranges::all_of(samples, [](float sample) { return std::abs(sample) <= 1.0F; });
}

}  // namespace

void run_audio_file(std::span<const std::byte> input) {
  auto file = AudioFile::open_memory(input, "upload");
  if (!file) return require(file.error().code == "bad_audio_file", "an error has its code");
  require(file->channels() >= 1 && file->channels() <= max_channels, "a file has 1 to 64 channels");
  require(file->frames() >= 0, "a length is not negative");
  std::vector<float> piece;
  int64_t total = 0;
  for (file->read(5000, piece); !piece.empty() && total < max_frames; file->read(5000, piece)) {
    require(piece.size() <= 5000, "no more is read than was asked for");
    require(are_samples(piece), "samples are in [-1, 1]");
    total += static_cast<int64_t>(piece.size());
  }
}

void run_pcm(std::span<const std::byte> input) {
  Choices choices(input);
  const PcmFormat format = choose_format(choices);
  const size_t cuts = choices.byte() % 16U;
  std::vector<size_t> pieces;
  for (size_t i = 0; i < cuts; ++i) pieces.push_back(choices.byte());
  const auto audio = choices.rest();

  PcmDecoder whole(format);
  std::vector<float> expected;
  whole.decode(audio, expected);
  require(are_samples(expected), "samples are in [-1, 1]");
  const auto frame = static_cast<size_t>(bytes_per_sample(format.encoding) * format.channels);
  require(expected.size() == audio.size() / frame && whole.carried_bytes() == audio.size() % frame,
          "a sample for each frame, and the rest is carried");

  PcmDecoder cut(format);
  std::vector<float> samples;
  auto rest = audio;
  for (const size_t piece : pieces) {
    cut.decode(rest.first(std::min(piece, rest.size())), samples);
    rest = rest.subspan(std::min(piece, rest.size()));
  }
  cut.decode(rest, samples);
  require(samples == expected, "it does not matter where audio is cut");
}

void run_audio_intake(std::span<const std::byte> input) {
  Choices choices(input);
  constexpr int rates[] = {4000, 8000, 11025, 16000, 44100, 48000, 384000};
  const PcmFormat format = choose_format(choices);
  const int rate = rates[choices.pick(7)];
  constexpr int model_rate = 16000;
  auto intake = AudioIntake::create({.pcm = format, .sample_rate = rate}, model_rate);
  require(intake.has_value(), "these rates can be converted");
  std::vector<float> samples;
  int64_t pushed = 0;
  const auto convert_all = [&](int64_t limit) {
    for (int64_t begin = -1; begin != intake->begin();) {
      begin = intake->begin();
      require(intake->convert(limit, samples).has_value(), "bare samples are always audio");
    }
  };
  while (!choices.done()) {
    const auto bytes = choices.take(choices.byte());
    intake->push(bytes);
    pushed += static_cast<int64_t>(bytes.size());
    require(intake->end() == pushed, "all bytes are queued or converted");
    const int what = choices.pick(4);
    if (what == 1) convert_all(pushed);
    if (what == 2) convert_all(choices.byte());
    if (what == 3) intake->flush(samples);
  }
  convert_all(pushed);
  intake->flush(samples);
  require(intake->begin() == pushed, "everything was converted");
  require(static_cast<int64_t>(samples.size()) == pushed / frame_bytes(format) * model_rate / rate,
          "there are as many samples as the time asks for");
}

void run_coded_audio(std::span<const std::byte> input) {
  Choices choices(input);
  const AudioFormat format{.coding =
                               choices.pick(2) == 0 ? AudioCoding::container : AudioCoding::opus_packets};
  const size_t longest = 1U + choices.byte();
  const auto audio = choices.rest();
  const auto decode_all = [&](size_t longest_piece) {
    const auto decoder = make_audio_decoder(format);
    std::vector<float> samples;
    for (auto rest = audio; !rest.empty() && samples.size() < size_t{max_frames};) {
      auto piece = rest.first(std::min(longest_piece, rest.size()));
      rest = rest.subspan(piece.size());
      while ((!piece.empty() || decoder->has_more()) && samples.size() < size_t{max_frames}) {
        const size_t before = samples.size();
        const auto decoded = decoder->decode(piece, samples);
        if (!decoded) {
          require(decoded.error().code == "bad_audio", "an error has its code");
          return samples;
        }
        require((samples.size() - before) * 1000 <=
                    static_cast<size_t>(decoder->sample_rate()) * AudioDecoder::longest_piece_ms,
                "a piece is short");
      }
    }
    require(are_samples(samples), "samples are in [-1, 1]");
    return samples;
  };
  require(decode_all(audio.size() + 1) == decode_all(longest), "it does not matter where audio is cut");
}

}  // namespace tutti::fuzz
