#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "proto/deepgram.hpp"
#include "proto/parameter.hpp"
#include "proto/query.hpp"

namespace tutti::proto {
namespace {

constexpr std::string_view accepted_encoding_names = "linear16, mulaw, alaw, opus and ogg-opus";
constexpr int longest_silence_ms = 600'000;

/// What the query says, before the parts are seen together.
struct Reading {
  DeepgramRequest request;
  bool has_encoding = false;
  bool has_sample_rate = false;
};

Result<void> read_encoding(const std::string& value, Reading& reading) {
  if (value == "linear16") {
    reading.request.stream.format.encoding = Encoding::pcm_s16le;
  } else if (value == "mulaw") {
    reading.request.stream.format.encoding = Encoding::mulaw;
  } else if (value == "alaw") {
    reading.request.stream.format.encoding = Encoding::alaw;
  } else if (value == "opus") {
    reading.request.stream.coding = AudioCoding::opus_packets;
  } else if (value == "ogg-opus") {
    reading.request.stream.coding = AudioCoding::container;
  } else {
    return fail("bad_encoding",
                fmt::format("encoding is {}; accepted are {}", shown(value), accepted_encoding_names));
  }
  reading.has_encoding = true;
  return {};
}

Result<void> read_sample_rate(const std::string& value, Reading& reading) {
  const auto rate = parse_sample_rate(value);
  if (!rate) return tl::unexpected(rate.error());
  reading.request.stream.sample_rate = *rate;
  reading.has_sample_rate = true;
  return {};
}

Result<void> read_channels(const std::string& value, Reading& reading) {
  const auto channels = parse_channels(value);
  if (!channels) return tl::unexpected(channels.error());
  reading.request.channels = *channels;
  return {};
}

Result<void> read_multichannel(const std::string& value, Reading& reading) {
  return read_flag("multichannel", value, reading.request.multichannel);
}

Result<void> read_interim_results(const std::string& value, Reading& reading) {
  return read_flag("interim_results", value, reading.request.stream.interim);
}

Result<void> read_vad_events(const std::string& value, Reading& reading) {
  return read_flag("vad_events", value, reading.request.stream.vad_events);
}

Result<int> read_milliseconds(std::string_view name, const std::string& value,
                              std::string_view else_accepted) {
  const auto milliseconds = parse_int(value);
  if (!milliseconds || *milliseconds < 0 || *milliseconds > longest_silence_ms) {
    return fail("bad_parameter", fmt::format("{} is {}; accepted are {}milliseconds from 0 to {}", name,
                                             shown(value), else_accepted, longest_silence_ms));
  }
  return *milliseconds;
}

Result<void> read_endpointing(const std::string& value, Reading& reading) {
  if (value == "true") return {};
  if (value == "false") {
    reading.request.speech_final = false;
    return {};
  }
  const auto milliseconds = read_milliseconds("endpointing", value, "false, true and ");
  if (!milliseconds) return tl::unexpected(milliseconds.error());
  reading.request.speech_final = *milliseconds > 0;
  if (*milliseconds > 0) reading.request.stream.endpoint_silence_ms = *milliseconds;
  return {};
}

Result<void> read_utterance_end(const std::string& value, Reading& reading) {
  const auto milliseconds = read_milliseconds("utterance_end_ms", value, "");
  if (!milliseconds) return tl::unexpected(milliseconds.error());
  if (*milliseconds > 0) reading.request.utterance_end_ms = *milliseconds;
  return {};
}

// Whoever asks for it waits for results that this connection would not bring.
Result<void> read_callback(const std::string& /*value*/, Reading& /*reading*/) {
  return fail("bad_parameter", "callback is not supported; results come over the WebSocket");
}

struct Parameter {
  std::string_view name;
  Result<void> (*read)(const std::string& value, Reading& reading);
};

constexpr std::array known_parameters = {
    Parameter{"encoding", read_encoding},
    Parameter{"sample_rate", read_sample_rate},
    Parameter{"channels", read_channels},
    Parameter{"multichannel", read_multichannel},
    Parameter{"interim_results", read_interim_results},
    Parameter{"vad_events", read_vad_events},
    Parameter{"endpointing", read_endpointing},
    Parameter{"utterance_end_ms", read_utterance_end},
    Parameter{"callback", read_callback},
};

Result<DeepgramRequest> complete(Reading reading) {
  DeepgramRequest& request = reading.request;
  // A container says itself what it holds.
  if (!reading.has_encoding) request.stream.coding = AudioCoding::container;
  const bool is_coded = request.stream.coding != AudioCoding::pcm;
  if (is_coded && request.multichannel) {
    return fail(
        "bad_channels",
        "multichannel is for raw audio (linear16, mulaw and alaw); the channels of other audio are averaged");
  }
  if (!is_coded && !reading.has_sample_rate)
    return fail("bad_sample_rate", "raw audio needs a sample_rate, in Hz");
  if (request.tracks() > max_tracks) {
    return fail("bad_channels", fmt::format("channels is {} with multichannel; accepted is 1 to {}",
                                            request.channels, max_tracks));
  }
  request.stream.format.channels = request.multichannel || is_coded ? 1 : request.channels;
  if (is_coded) request.stream.sample_rate = StreamRequest{}.sample_rate;
  // Ends are the client's business then, but it still expects finals from time to time.
  if (!request.speech_final) request.stream.endpoint_silence_ms = 0;
  return std::move(request);
}

}  // namespace

Result<DeepgramRequest> parse_deepgram_request(std::string_view query) {
  const auto parameters = parse_query(query);
  if (!parameters) return tl::unexpected(parameters.error());
  Reading reading;
  reading.request.stream.interim = false;
  for (const auto& [name, value] : *parameters) {
    const auto known = std::ranges::find(known_parameters, name, &Parameter::name);
    if (known == known_parameters.end()) continue;
    if (auto read = known->read(value, reading); !read) return tl::unexpected(read.error());
  }
  return complete(std::move(reading));
}

}  // namespace tutti::proto
