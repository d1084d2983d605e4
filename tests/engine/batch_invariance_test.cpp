#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine_fixture.hpp"
#include "tests/config/patience.hpp"

namespace tutti {
namespace {

const std::vector<std::string>& clips() {
  static const std::vector<std::string> names = {
      "libri-02.flac", "libri-06.flac",     "ocean-24.flac",     "ocean-28.flac",
      "ocean-32.flac", "16k/digit-34.flac", "16k/digit-38.flac", "16k/prompt-43.flac"};
  return names;
}

// A stream of the crowd: where it is in its audio, and what it has said.
struct Speaker {
  std::vector<float> samples;
  Said alone;
  StreamKey key;
  size_t position = 0;
  bool admitted = false;
  bool finished = false;
  Said said;
};

class Crowd {
 public:
  Crowd(unsigned seed, int max_batch_size, const std::string& decoder) : random_(seed) {
    EngineConfig config;
    config.decoder = decoder;
    const auto solo = make_engine(config);
    config.max_batch_size = max_batch_size;
    engine_ = make_engine(config);
    const int speakers = unless_in_a_hurry(24, 6);
    for (int i = 0; i < speakers; ++i) {
      Speaker speaker;
      speaker.samples = clip(clips()[random_() % clips().size()]);
      // A random start and length: windows at every offset, last chunks of every size.
      const size_t skip = random_() % std::min<size_t>(speaker.samples.size() / 2, 8000);
      const size_t cut = random_() % std::min<size_t>(speaker.samples.size() / 2, 16000);
      speaker.samples = {speaker.samples.begin() + static_cast<std::ptrdiff_t>(skip),
                         speaker.samples.end() - static_cast<std::ptrdiff_t>(cut)};
      speaker.alone = recognize_alone(*solo, speaker.samples, 10240);
      speakers_.push_back(std::move(speaker));
    }
  }

  void speak() {
    while (std::any_of(speakers_.begin(), speakers_.end(), [](const Speaker& s) { return !s.said.done; })) {
      for (Speaker& speaker : speakers_) step(speaker);
      for (const Update& update : engine_->tick()) {
        for (Speaker& speaker : speakers_) {
          if (speaker.admitted && speaker.key == update.key) speaker.said.add(update);
        }
      }
    }
  }

  [[nodiscard]] const std::vector<Speaker>& speakers() const { return speakers_; }

 private:
  void step(Speaker& speaker) {
    if (speaker.finished || random_() % 3 == 0) return;
    if (!speaker.admitted) {
      speaker.key = engine_->admit({}).value();
      speaker.admitted = true;
    }
    const size_t count = std::min<size_t>(random_() % 12000, speaker.samples.size() - speaker.position);
    if (!engine_->feed(speaker.key, std::span(speaker.samples).subspan(speaker.position, count))) return;
    speaker.position += count;
    if (speaker.position == speaker.samples.size()) {
      must(engine_->finish(speaker.key));
      speaker.finished = true;
    }
  }

  std::mt19937 random_;
  std::unique_ptr<Engine> engine_;
  std::vector<Speaker> speakers_;
};

struct CrowdSize {
  int max_batch_size;
  const char* decoder;
};

void PrintTo(const CrowdSize& crowd, std::ostream* out) {
  *out << crowd.decoder << ", batches of up to " << crowd.max_batch_size;
}

class BatchInvariance : public testing::TestWithParam<CrowdSize> {};

TEST_P(BatchInvariance, AStreamsFinalsAreTheSameBitsAloneAndInACrowd) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  Crowd crowd(seed, GetParam().max_batch_size, GetParam().decoder);
  crowd.speak();
  for (const Speaker& speaker : crowd.speakers()) EXPECT_EQ(speaker.said.finals(), speaker.alone.finals());
}

INSTANTIATE_TEST_SUITE_P(Lanes, BatchInvariance,
                         testing::Values(CrowdSize{1, "greedy"}, CrowdSize{5, "prefix"},
                                         CrowdSize{16, "greedy"}, CrowdSize{32, "prefix"},
                                         CrowdSize{3, "rescore"}, CrowdSize{16, "rescore"}),
                         [](const auto& test) {
                           return test.param.decoder + std::to_string(test.param.max_batch_size);
                         });

// A partial that its final would follow in the same tick is left out, so partials are compared where the end
// of the audio is told after all of it was recognized.
TEST(Engine, PartialsAreTheSameBitsAloneAndInACrowd) {
  const auto engine = make_engine();
  std::vector<Speaker> speakers;
  for (const std::string& name : clips()) {
    Speaker speaker;
    speaker.samples = clip(name);
    speaker.alone = recognize_alone(*engine, speaker.samples, 320);
    speaker.key = engine->admit({}).value();
    speakers.push_back(std::move(speaker));
  }
  const auto listen = [&](const Update& update) {
    for (Speaker& speaker : speakers) {
      if (speaker.key == update.key) speaker.said.add(update);
    }
  };
  for (Speaker& speaker : speakers) must(engine->feed(speaker.key, speaker.samples));
  run_until_idle(*engine, listen);
  for (Speaker& speaker : speakers) must(engine->finish(speaker.key));
  run_until_idle(*engine, listen);
  for (const Speaker& speaker : speakers) EXPECT_EQ(speaker.said.events, speaker.alone.events);
}

}  // namespace
}  // namespace tutti
