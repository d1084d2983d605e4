#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.hpp"

namespace tutti {

/// Everything one stream said, in a form that can be compared to the bit.
struct Said {
  struct Event {
    Update::Kind kind;
    int32_t segment;
    std::string text;
    int64_t start_sample;
    int64_t end_sample;
    int64_t segment_sample;
    float confidence;
    FinalReason reason;
    std::vector<Word> words;
    bool operator==(const Event&) const;
  };
  std::vector<Event> events;  // partials, finals, error; in order
  bool done = false;
  int64_t audio_samples = 0;
  int64_t consumed_samples = 0;

  void add(const Update& update);
  [[nodiscard]] std::vector<Event> finals() const;
  [[nodiscard]] std::vector<std::string> final_texts() const;
  bool operator==(const Said&) const = default;
};

/// The folder of test data, or, for programs that run elsewhere than where they were built, the one that
/// TUTTI_TEST_DATA names.
[[nodiscard]] std::filesystem::path test_data();

/// The bundled model in float32, packed for the instruction set in use.
[[nodiscard]] std::shared_ptr<const ConformerCtc> load_bundled_model(const std::string& identity = {});
/// The same, loaded once for all tests of a program.
[[nodiscard]] std::shared_ptr<const ConformerCtc> bundled_model();

/// The small U2++ model with its attention decoders, for hypotheses of the usual length. Its weights are
/// arbitrary: what it says makes no sense, and depends on all of the audio.
[[nodiscard]] std::shared_ptr<const ConformerCtc> decoder_model();

/// Decodes greedily, as the expected transcripts were.
/// The search that the reference transcripts were made with.
[[nodiscard]] EngineConfig greedy_config();

/// With the bundled model, or, where `config` asks for rescoring, the one that has decoders.
[[nodiscard]] std::unique_ptr<Engine> make_engine(const EngineConfig& config = greedy_config());

/// Samples of a 16 kHz clip of tests/data/speech.
[[nodiscard]] std::vector<float> clip(const std::string& name);

/// Reference transcript of a clip.
[[nodiscard]] std::string expected_text(const std::string& name);

/// For calls that the test expects to succeed; throws what went wrong.
void must(const Result<void>& result);

/// Ticks until the engine has nothing to do, handing each update to `on_update`.
template <class F>
void run_until_idle(Engine& engine, F&& on_update) {
  while (engine.has_work()) {
    for (const Update& update : engine.tick()) on_update(update);
  }
}

/// One stream by itself: all samples in pieces of `piece`, then finish.
[[nodiscard]] Said recognize_alone(Engine& engine, std::span<const float> samples, size_t piece = 320);

}  // namespace tutti
