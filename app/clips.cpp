#include "app/clips.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "app/audio_source.hpp"
#include "audio/audio_file.hpp"
#include "config/result.hpp"

namespace tutti {
namespace {

std::map<std::string, std::string> load_texts(const std::filesystem::path& file) {
  std::map<std::string, std::string> texts;
  std::ifstream lines(file);
  simdjson::dom::parser parser;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    simdjson::dom::element entry;
    std::string_view name;
    std::string_view text;
    if (parser.parse(line).get(entry) != simdjson::SUCCESS ||
        entry["file"].get_string().get(name) != simdjson::SUCCESS ||
        entry["text"].get_string().get(text) != simdjson::SUCCESS) {
      throw SetupError(fmt::format("{}:{}: accepted is a line {{\"file\":\"...\",\"text\":\"...\"}}",
                                   file.string(), number));
    }
    texts.emplace(name, text);
  }
  return texts;
}

std::string read_all(AudioFile& file) {
  std::string audio;
  std::vector<float> samples;
  do {
    file.read(file.sample_rate(), samples);
    audio += to_s16le(samples);
  } while (!samples.empty());
  return audio;
}

}  // namespace

std::vector<Clip> load_clips(const std::filesystem::path& directory) {
  if (!std::filesystem::is_directory(directory)) {
    throw SetupError(fmt::format("{}: no such directory", directory.string()));
  }
  const auto texts = load_texts(directory / "transcripts.jsonl");
  std::vector<Clip> clips;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    auto file = entry.is_regular_file() ? AudioFile::open(entry.path().string())
                                        : fail("bad_audio_file", "not a file");
    if (!file) continue;
    Clip clip{.file = entry.path().filename().string(),
              .sample_rate = file->sample_rate(),
              .audio = read_all(*file),
              .text = std::nullopt};
    if (clip.audio.empty()) continue;
    if (const auto text = texts.find(clip.file); text != texts.end()) clip.text = text->second;
    clips.push_back(std::move(clip));
  }
  if (clips.empty()) throw SetupError(fmt::format("{}: no file that libsndfile reads", directory.string()));
  std::ranges::sort(clips, {}, &Clip::file);
  return clips;
}

}  // namespace tutti
