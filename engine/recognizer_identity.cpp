#include "engine/recognizer_identity.hpp"

#include <fmt/format.h>

namespace tutti {

std::string recognition_settings(const EngineConfig& config) {
  const int block = config.block_size_frames == 0 ? config.chunk_size : config.block_size_frames;
  std::string settings = fmt::format(
      "weights={} chunk_size={} num_left_chunks={} block_size_frames={} max_position_frames={} "
      "max_segment_tokens={} decoder={}",
      config.weights, config.chunk_size, config.num_left_chunks, block, config.max_position_frames,
      config.max_segment_tokens, config.decoder);
  if (config.num_left_chunks < 0) {
    settings +=
        fmt::format(" max_blocks_per_seq={} at_capacity={}", config.max_blocks_per_seq, config.at_capacity);
  }
  if (config.decoder != "greedy") settings += fmt::format(" beam={}", config.beam);
  if (config.decoder == "rescore") {
    settings +=
        fmt::format(" ctc_weight={} reverse_weight={} max_rescored_frames={} decoder_kv={}",
                    config.ctc_weight, config.reverse_weight, config.max_rescored_frames, config.decoder_kv);
  }
  return settings;
}

std::string to_string(const RecognizerIdentity& identity) {
  return to_string(identity.model) + " " + identity.settings;
}

std::string difference(const RecognizerIdentity& wanted, const RecognizerIdentity& found) {
  if (wanted.model != found.model) {
    return fmt::format("its model is {}; {} is wanted", to_string(found.model), to_string(wanted.model));
  }
  if (wanted.settings != found.settings) {
    return fmt::format("it recognizes with {}; {} is wanted", found.settings, wanted.settings);
  }
  return {};
}

}  // namespace tutti
