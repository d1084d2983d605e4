#include "audio/audio_decoder.hpp"

#include <gmock/gmock.h>

#include "audio/opus_framing.hpp"
#include "tests/audio/coded_audio.hpp"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

AudioFormat container() { return {.coding = AudioCoding::container}; }

Bytes as_messages(const std::string& file) {
  OpusFramer framer;
  Bytes stream;
  for (const PlacedPacket& packet : demux<OggDemuxer>(read_bytes(opus_data(file))).packets) {
    const Bytes frame = framer.add(packet.bytes, true);
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  return stream;
}

class CodedAudio : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] bool is_raw() const { return GetParam() == std::string("packets"); }
  [[nodiscard]] Bytes bytes() const {
    if (is_raw()) return as_messages("opusenc.opus");
    if (GetParam() == std::string("wav")) {
      Bytes wav = read_bytes(TUTTI_TEST_DATA "/fbank/libri-19-198-0000.wav");
      wav.resize(60'000);
      return wav;
    }
    return read_bytes(opus_data(GetParam()));
  }
  [[nodiscard]] std::unique_ptr<AudioDecoder> decoder() const {
    return make_audio_decoder({.coding = is_raw() ? AudioCoding::opus_packets : AudioCoding::container});
  }
};

TEST_P(CodedAudio, GivesTheSameSamplesHoweverTheBytesAreCut) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const Bytes all = bytes();
  const Decoded whole = decode(*decoder(), {all});
  ASSERT_THAT(whole.error, IsEmpty());
  ASSERT_GT(whole.samples.size(), 4000U);
  EXPECT_GT(energy(whole.samples), 1);
  EXPECT_EQ(decode(*decoder(), pieces(all, 1)).samples, whole.samples);
  for (const size_t longest : {7U, 300U, 5000U}) {
    EXPECT_EQ(decode(*decoder(), pieces(all, longest, &random)).samples, whole.samples) << longest;
  }
}

TEST_P(CodedAudio, BreaksOffWithoutHarmAtEveryByte) {
  const Bytes all = bytes();
  const auto first = std::span(all).first(1200);
  for (size_t size = 0; size <= first.size(); ++size) {
    const Decoded part = decode(*decoder(), {first.first(size)});
    ASSERT_THAT(part.error, IsEmpty()) << size;
  }
}

TEST_P(CodedAudio, SurvivesBytesThatWereChanged) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const Bytes all = bytes();
  for (int i = 0; i < 300; ++i) {
    Bytes changed(all.begin(), all.begin() + 3000);
    for (unsigned changes = 1 + random() % 8; changes > 0; --changes) {
      const size_t place = random() % 2 == 0 ? random() % 200 : random() % changed.size();
      changed[place] = static_cast<std::byte>(random());
    }
    const Decoded result = decode(*decoder(), pieces(changed, 1000, &random));
    for (const float sample : result.samples) ASSERT_LE(std::abs(sample), 1.0F);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, CodedAudio,
                         testing::Values("packets", "wav", "opusenc.opus", "stereo.opus", "mediarecorder.ogg",
                                         "mediarecorder.webm", "ffmpeg.webm"));

struct Refusal {
  const char* file;
  const char* name;
};
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.file; }

class RefusedAudio : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedAudio, IsNamed) {
  const Bytes bytes = read_bytes(opus_data(std::string("refused/") + GetParam().file));
  for (const size_t longest : {bytes.size(), size_t{1}}) {
    const Decoded result = decode(*make_audio_decoder(container()), pieces(bytes, longest));
    EXPECT_THAT(result.error, AllOf(HasSubstr(GetParam().name), HasSubstr("accepted"), HasSubstr("pus")));
    EXPECT_THAT(result.samples, IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, RefusedAudio,
                         testing::Values(Refusal{"tagged.mp3", "MP3"}, Refusal{"untagged.mp3", "MP3"},
                                         Refusal{"aac.m4a", "MP4"}, Refusal{"adts.aac", "AAC"},
                                         Refusal{"bare.flac", "FLAC"}, Refusal{"pcm.aiff", "AIFF"},
                                         Refusal{"vorbis.ogg", "Vorbis"}, Refusal{"flac.ogg", "FLAC"},
                                         Refusal{"speex.ogg", "Speex"}, Refusal{"vorbis.webm", "A_VORBIS"},
                                         Refusal{"aac.mka", "A_AAC"},
                                         Refusal{"surround.opus", "6 channels of mapping family 1"}));

TEST(AudioDecoder, SaysThatItDoesNotKnowWhatItHears) {
  EXPECT_THAT(decode_container(Bytes(100)).error, AllOf(HasSubstr("unknown format"), HasSubstr("WebM")));
}

TEST(AudioDecoder, HearsNothingInTooFewBytes) {
  const Decoded result = decode_container(Bytes(11));
  EXPECT_THAT(result.error, IsEmpty());
  EXPECT_THAT(result.samples, IsEmpty());
}

TEST(AudioDecoder, NamesAContainerThatComesAsRawPackets) {
  OpusFramer framer;
  const Bytes message = framer.add(read_bytes(opus_data("mediarecorder.webm")), true);
  const auto decoder = make_audio_decoder({.coding = AudioCoding::opus_packets});
  EXPECT_THAT(decode(*decoder, {message}).error, HasSubstr("WebM"));
}

}  // namespace
}  // namespace tutti::test
