#include "engine_fixture.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "audio/audio_file.hpp"
#include "gpu/cpu/cpu_ops.hpp"

namespace tutti {

bool Said::Event::operator==(const Event& other) const {
  const auto same_word = [](const Word& a, const Word& b) {
    return a.text == b.text && a.first_frame == b.first_frame && a.last_frame == b.last_frame &&
           a.confidence == b.confidence;
  };
  return kind == other.kind && segment == other.segment && text == other.text &&
         start_sample == other.start_sample && end_sample == other.end_sample &&
         segment_sample == other.segment_sample && confidence == other.confidence && reason == other.reason &&
         std::equal(words.begin(), words.end(), other.words.begin(), other.words.end(), same_word);
}

void Said::add(const Update& update) {
  consumed_samples += update.consumed_samples;
  audio_samples = update.audio_samples;
  if (update.kind == Update::Kind::done) done = true;
  if (update.kind == Update::Kind::done || update.kind == Update::Kind::consumed) return;
  events.push_back(
      {update.kind,
       update.segment,
       update.text,
       update.start_sample,
       update.end_sample,
       update.segment_sample,
       update.confidence,
       update.reason,
       {update.words.begin(), update.words.begin() + static_cast<std::ptrdiff_t>(update.word_count)}});
}

std::vector<Said::Event> Said::finals() const {
  std::vector<Event> finals;
  std::copy_if(events.begin(), events.end(), std::back_inserter(finals),
               [](const Event& e) { return e.kind == Update::Kind::final; });
  return finals;
}

std::vector<std::string> Said::final_texts() const {
  std::vector<std::string> texts;
  for (const Event& event : finals()) texts.push_back(event.text);
  return texts;
}

std::filesystem::path test_data() {
  const char* const elsewhere = std::getenv("TUTTI_TEST_DATA");
  return elsewhere != nullptr ? elsewhere : TUTTI_TEST_DATA;
}

std::shared_ptr<const ConformerCtc> load_bundled_model(const std::string& identity) {
  const auto ops = make_cpu_ops();
  return std::make_shared<const ConformerCtc>(load_wenet_checkpoint(test_data() / "tutti-en-mini"), *ops,
                                              required_positions(EngineConfig{}), 0, identity);
}

std::shared_ptr<const ConformerCtc> bundled_model() {
  static const std::shared_ptr<const ConformerCtc> model = load_bundled_model();
  return model;
}

std::shared_ptr<const ConformerCtc> decoder_model() {
  static const std::shared_ptr<const ConformerCtc> model = [] {
    EngineConfig config;
    config.decoder = "rescore";
    const auto ops = make_cpu_ops();
    return std::make_shared<const ConformerCtc>(load_wenet_checkpoint(test_data() / "conformer-u2pp-tiny"),
                                                *ops, required_positions(config),
                                                required_hypothesis_tokens(config));
  }();
  return model;
}

EngineConfig greedy_config() {
  EngineConfig config;
  config.decoder = "greedy";
  return config;
}

std::unique_ptr<Engine> make_engine(const EngineConfig& config) {
  const auto model = config.decoder == "rescore" ? decoder_model() : bundled_model();
  return std::make_unique<Engine>(model, make_cpu_ops(), config);
}

std::vector<float> clip(const std::string& name) {
  auto file = AudioFile::open((test_data() / "speech" / name).string());
  if (!file) throw std::runtime_error(file.error().message);
  if (file->sample_rate() != 16000) throw std::runtime_error(name + " is not at 16 kHz");
  std::vector<float> samples;
  file->read(int64_t{16000} * 60, samples);
  return samples;
}

std::string expected_text(const std::string& name) {
  std::ifstream lines(test_data() / "speech/expected-greedy.jsonl");
  const std::string file = R"({"file": ")" + name + R"(", "text": ")";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(file)) return line.substr(file.size(), line.find('"', file.size()) - file.size());
  }
  throw std::runtime_error("no expected transcript for " + name);
}

void must(const Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().code + ": " + result.error().message);
}

Said recognize_alone(Engine& engine, std::span<const float> samples, size_t piece) {
  const StreamKey key = engine.admit({}).value();
  Said said;
  const auto listen = [&](const Update& update) { said.add(update); };
  for (size_t begin = 0; begin < samples.size(); begin += piece) {
    must(engine.feed(key, samples.subspan(begin, std::min(piece, samples.size() - begin))));
    run_until_idle(engine, listen);
  }
  must(engine.finish(key));
  run_until_idle(engine, listen);
  return said;
}

}  // namespace tutti
