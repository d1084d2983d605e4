#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

/// A recording in memory.
struct Clip {
  std::string file;  ///< name without directory
  int sample_rate = 0;
  std::string audio;  ///< mono s16le
  std::optional<std::string> text;

  [[nodiscard]] int64_t samples() const { return static_cast<int64_t>(audio.size() / sizeof(int16_t)); }
};

/// Every file of `directory` itself that libsndfile reads, by name, each with the `text` that a line
/// {"file":...,"text":...} of transcripts.jsonl has for it. Throws SetupError when there is no clip, or when
/// transcripts.jsonl is not what it should be.
[[nodiscard]] std::vector<Clip> load_clips(const std::filesystem::path& directory);

}  // namespace tutti
