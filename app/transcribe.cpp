#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "app/bundled_model.hpp"
#include "app/commands.hpp"
#include "app/cpu_level_option.hpp"
#include "app/progress_bar.hpp"
#include "app/transcriber.hpp"
#include "audio/audio_file.hpp"
#include "config/json_writer.hpp"
#include "gpu/cpu/level.hpp"
#include "gpu/device.hpp"
#include "model/model_loader.hpp"

namespace tutti {

namespace {

struct Options {
  std::vector<std::string> files;
  std::string model;
  std::string decoder = EngineConfig{}.decoder;
  int beam = EngineConfig{}.beam;
  std::string weights = EngineConfig{}.weights;
  std::string cpu_level = EngineConfig{}.cpu_level;
  bool json = false;
};

double total_seconds(const std::vector<std::string>& files) {
  double seconds = 0;
  for (const std::string& file : files) {
    const auto opened = AudioFile::open(file);
    if (opened) seconds += static_cast<double>(opened->frames()) / opened->sample_rate();
  }
  return seconds;
}

std::string json_line(const Transcript& t) {
  JsonWriter json;
  json.begin_object().key("file").string(t.file).key("text").string(t.text).key("words").begin_array();
  for (const TranscribedWord& word : t.words) {
    json.begin_object().key("word").string(word.word);
    json.key("start").decimal(word.start).key("end").decimal(word.end);
    json.key("confidence").decimal(word.confidence).end_object();
  }
  json.end_array().key("audio_seconds").decimal(t.audio_seconds).key("wall_seconds").decimal(t.wall_seconds);
  json.end_object();
  return std::move(json).take();
}

int transcribe(const Options& options) {
  cpu::use_level(options.cpu_level);
  EngineConfig config;
  config.decoder = options.decoder;
  config.beam = options.beam;
  config.max_tick_ms = 1000;  // nobody waits for a single chunk here: wide ticks are the cheapest
  std::unique_ptr<Ops> ops = open_device({}, parse_weight_type(options.weights));
  const auto model =
      std::make_shared<const ConformerCtc>(load_model(model_directory(options.model)), *ops,
                                           required_positions(config), required_hypothesis_tokens(config));
  Engine engine(model, std::move(ops), config);

  ProgressBar bar;
  const double total = total_seconds(options.files);
  int failures = 0;
  const auto on_done = [&](const Transcript& t) {
    bar.clear();
    if (options.json) {
      std::cout << json_line(t) << std::endl;
    } else {
      std::cout << (options.files.size() > 1 ? t.file + ": " : "") << t.text << std::endl;
    }
  };
  const auto on_error = [&](const TranscriptError& e) {
    bar.clear();
    std::cerr << "tutti: " << e.error.message << '\n';
    ++failures;
  };
  Transcriber(engine).run(options.files, on_done, on_error,
                          [&](double seconds) { bar.show(seconds, total); });
  return failures == 0 ? 0 : 1;
}

}  // namespace

void add_transcribe(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("transcribe", "Write what is said in audio files");
  command->footer(
      "WAV, FLAC, Ogg (Vorbis, Opus), WebM (Opus), MP3, AIFF, ...; any sample rate; channels are averaged.\n"
      "Exit status 1 when a file could not be transcribed; the others still are.");
  command->add_option("files", options->files, "Audio files")->required();
  command->add_option("--model", options->model, "Model directory (default: the bundled English model)");
  command
      ->add_option(
          "--decoder", options->decoder,
          "How tokens are chosen: prefix (a beam of hypotheses), greedy, or rescore (prefix, the best of "
          "the beam chosen by the model's attention decoder too)")
      ->check(CLI::IsMember({"prefix", "greedy", "rescore"}))
      ->capture_default_str();
  command->add_option("--beam", options->beam, "Hypotheses that prefix keeps, 1 to 64")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--weights", options->weights, "How weight matrices are held")
      ->check(CLI::IsMember({"fp32", "bf16", "int8"}))
      ->capture_default_str();
  add_cpu_level(*command, options->cpu_level);
  command->add_flag(
      "--json", options->json,
      "One JSON object a line: file, text, words with times and confidence, audio_seconds, wall_seconds");
  command->callback([options, &exit_code] { exit_code = transcribe(*options); });
}

}  // namespace tutti
