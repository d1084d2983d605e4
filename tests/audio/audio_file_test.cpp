#include "audio/audio_file.hpp"

#include <gmock/gmock.h>
#include <sndfile.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>

#include "tests/audio/coded_audio.hpp"

namespace tutti {
namespace {

/// A file name of this test's own, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& suffix)
      : path_(std::filesystem::temp_directory_path() /
              (std::string("tutti-") + ::testing::UnitTest::GetInstance()->current_test_info()->name() + "-" +
               std::to_string(getpid()) + suffix)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

void write_wav(const std::string& path, int format, int channels, const std::vector<float>& samples) {
  SF_INFO info{};
  info.samplerate = 16000;
  info.channels = channels;
  info.format = SF_FORMAT_WAV | format;
  SNDFILE* file = sf_open(path.c_str(), SFM_WRITE, &info);
  ASSERT_NE(file, nullptr);
  sf_write_float(file, samples.data(), static_cast<sf_count_t>(samples.size()));
  sf_close(file);
}

TEST(AudioFile, ReadsFlacInPiecesUntilTheEnd) {
  auto file = AudioFile::open(TUTTI_TEST_DATA "/speech/libri-06.flac");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->sample_rate(), 16000);
  EXPECT_EQ(file->channels(), 1);
  std::vector<float> piece;
  int64_t total = 0;
  for (file->read(5000, piece); !piece.empty(); file->read(5000, piece)) {
    EXPECT_LE(piece.size(), 5000U);
    total += static_cast<int64_t>(piece.size());
  }
  EXPECT_EQ(total, file->frames());
  EXPECT_EQ(total, 89520);
}

TEST(AudioFile, SixteenBitSamplesAreExact) {
  const std::string name = TUTTI_TEST_DATA "/fbank/libri-19-198-0000.wav";
  auto file = AudioFile::open(name);
  ASSERT_TRUE(file);
  std::vector<float> samples;
  file->read(1 << 20, samples);
  std::ifstream raw(name, std::ios::binary);
  raw.seekg(44);
  std::vector<int16_t> integers(samples.size());
  raw.read(reinterpret_cast<char*>(integers.data()), static_cast<std::streamsize>(2 * integers.size()));
  ASSERT_TRUE(raw);
  for (size_t i = 0; i < samples.size(); ++i) {
    ASSERT_EQ(samples[i], static_cast<float>(integers[i]) / 32768.0F) << i;
  }
}

TEST(AudioFile, AveragesChannels) {
  const TemporaryFile file(".wav");
  write_wav(file.path(), SF_FORMAT_PCM_16, 2, {0.5F, 0.0F, -0.5F, -0.25F});
  auto opened = AudioFile::open(file.path());
  ASSERT_TRUE(opened);
  std::vector<float> samples;
  opened->read(10, samples);
  EXPECT_THAT(samples, ::testing::ElementsAre(0.25F, -0.375F));
}

TEST(AudioFile, ClipsFloatSamplesAndDropsNonFiniteOnes) {
  const TemporaryFile file(".wav");
  write_wav(file.path(), SF_FORMAT_FLOAT, 1, {2.0F, std::numeric_limits<float>::quiet_NaN(), 0.5F});
  auto opened = AudioFile::open(file.path());
  ASSERT_TRUE(opened);
  std::vector<float> samples;
  opened->read(10, samples);
  EXPECT_THAT(samples, ::testing::ElementsAre(1.0F, 0.0F, 0.5F));
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(AudioFile, ReadsTheSameFromMemory) {
  for (const auto* name : {"/speech/libri-06.flac", "/fbank/libri-19-198-0000.wav"}) {
    const std::string path = std::string(TUTTI_TEST_DATA) + name;
    const std::string bytes = contents(path);
    auto on_disk = AudioFile::open(path);
    auto in_memory = AudioFile::open_memory(std::as_bytes(std::span(bytes)), "the file");
    ASSERT_TRUE(on_disk && in_memory);
    EXPECT_EQ(in_memory->frames(), on_disk->frames());
    std::vector<float> expected;
    std::vector<float> samples;
    on_disk->read(1 << 20, expected);
    in_memory->read(1 << 20, samples);
    EXPECT_EQ(samples, expected);
  }
}

TEST(AudioFile, ReadsOpusAsALiveStreamOfItIsRead) {
  for (const char* name : {"opusenc.opus", "ffmpeg.webm", "mediarecorder.webm"}) {
    const std::string path = test::opus_data(name).string();
    const test::Bytes bytes = test::read_bytes(path);
    const std::vector<float> expected = test::decode_container(bytes).samples;
    for (const bool from_memory : {false, true}) {
      auto file = from_memory ? AudioFile::open_memory(bytes, "the file") : AudioFile::open(path);
      ASSERT_TRUE(file) << name;
      EXPECT_EQ(file->sample_rate(), 16000);
      EXPECT_EQ(file->channels(), 1);
      std::vector<float> samples;
      std::vector<float> piece;
      for (file->read(777, piece); !piece.empty(); file->read(777, piece)) {
        ASSERT_LE(piece.size(), 777U);
        samples.insert(samples.end(), piece.begin(), piece.end());
      }
      EXPECT_EQ(samples, expected) << name;
    }
  }
}

TEST(AudioFile, ReadsOpusUpToWhereItBreaksOff) {
  test::Bytes bytes = test::read_bytes(test::opus_data("mediarecorder.webm"));
  bytes.resize(bytes.size() / 2);
  bytes.resize(bytes.size() + 5000);  // of zeros: no element has such a name
  auto file = AudioFile::open_memory(bytes, "the file");
  ASSERT_TRUE(file);
  std::vector<float> samples;
  file->read(1 << 20, samples);
  EXPECT_GT(samples.size(), 3U * 16000);
  EXPECT_LT(samples.size(), 6U * 16000);
  file->read(1 << 20, samples);
  EXPECT_THAT(samples, testing::IsEmpty());
}

TEST(AudioFile, NamesWhatAWebmFileHoldsInsteadOfOpus) {
  const test::Bytes bytes = test::read_bytes(test::opus_data("refused/vorbis.webm"));
  const auto file = AudioFile::open_memory(bytes, "the file");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, "bad_audio_file");
  EXPECT_THAT(file.error().message, testing::HasSubstr("the file: the WebM stream holds A_VORBIS"));
  const auto stub = AudioFile::open_memory(std::span(bytes).first(5), "the file");
  ASSERT_FALSE(stub);
  EXPECT_THAT(stub.error().message, testing::HasSubstr("ends before"));
}

TEST(AudioFile, SurvivesWhateverIsInMemory) {
  const std::string whole = contents(TUTTI_TEST_DATA "/speech/digit-34.flac");
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::vector<float> samples;
  for (int round = 0; round < 200; ++round) {
    std::string bytes = whole.substr(0, round % 2 == 0 ? random() % whole.size() : whole.size());
    for (int i = 0; i < 5 && !bytes.empty(); ++i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    auto file = AudioFile::open_memory(std::as_bytes(std::span(bytes)), "the file");
    if (!file) {
      EXPECT_THAT(file.error().message, ::testing::StartsWith("the file: "));
      continue;
    }
    for (int pieces = 0; pieces < 100; ++pieces) {
      file->read(1600, samples);
      if (samples.empty()) break;
      EXPECT_LE(samples.size(), 1600U);
    }
  }
}

TEST(AudioFile, NamesAFileItCannotRead) {
  const TemporaryFile junk(".wav");
  std::ofstream(junk.path()) << "this is not sound";
  for (const std::string& path : {junk.path(), std::string("/nonexistent/clip.wav")}) {
    const auto file = AudioFile::open(path);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, "bad_audio_file");
    EXPECT_THAT(file.error().message, ::testing::StartsWith(path + ": "));
  }
}

}  // namespace
}  // namespace tutti
