#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <optional>

#include "proto/json_message.hpp"
#include "proto/native.hpp"
#include "proto/parameter.hpp"
#include "proto/query.hpp"

namespace tutti::proto {
namespace {

// A control message is a few dozen bytes; the limit leaves room for fields of other clients and bounds what
// one costs to parse.
constexpr size_t max_control_message_bytes = 64 * 1024;

struct CodingName {
  std::string_view name;
  AudioCoding coding;
};
// A container says itself what it is; the names are for those who know.
constexpr std::array coding_names = {
    CodingName{"opus", AudioCoding::opus_packets},   CodingName{"ogg_opus", AudioCoding::container},
    CodingName{"webm_opus", AudioCoding::container}, CodingName{"wav", AudioCoding::container},
    CodingName{"auto", AudioCoding::container},
};

Result<void> read_encoding(const std::string& value, NativeRequest& request) {
  if (const auto* const coded = std::ranges::find(coding_names, value, &CodingName::name);
      coded != coding_names.end()) {
    request.coding = coded->coding;
    return {};
  }
  const auto encoding = parse_encoding(value);
  if (!encoding) {
    return fail("bad_encoding",
                fmt::format("encoding is {}; accepted are {}, opus, ogg_opus, webm_opus, wav and auto",
                            shown(value), accepted_encodings()));
  }
  request.format.encoding = *encoding;
  return {};
}

Result<void> read_sample_rate(const std::string& value, NativeRequest& request) {
  const auto rate = parse_sample_rate(value);
  if (!rate) return tl::unexpected(rate.error());
  request.sample_rate = *rate;
  return {};
}

Result<void> read_channels(const std::string& value, NativeRequest& request) {
  const auto channels = parse_channels(value);
  if (!channels) return tl::unexpected(channels.error());
  request.format.channels = *channels;
  return {};
}

// The upper limit is `channels`, which may come later in the query: it is checked at the end.
Result<void> read_channel(const std::string& value, NativeRequest& request) {
  const auto channel = parse_int(value);
  if (!channel || *channel < 0) {
    return fail("bad_channels",
                fmt::format("channel is {}; accepted is the index of one channel, from 0", shown(value)));
  }
  request.format.mix = ChannelMix::pick;
  request.format.picked_channel = *channel;
  return {};
}

Result<void> read_interim(const std::string& value, NativeRequest& request) {
  return read_flag("interim", value, request.interim);
}

Result<void> read_words(const std::string& value, NativeRequest& request) {
  return read_flag("words", value, request.words);
}

Result<void> read_vad_events(const std::string& value, NativeRequest& request) {
  return read_flag("vad_events", value, request.vad_events);
}

constexpr int longest_silence_ms = 600'000;
constexpr int longest_segment_ms = 3'600'000;

Result<void> read_duration(std::string_view name, const std::string& value, int longest,
                           std::string_view else_accepted, std::optional<int>& duration) {
  const auto milliseconds = parse_int(value);
  if (!milliseconds || *milliseconds < 0 || *milliseconds > longest) {
    return fail("bad_parameter", fmt::format("{} is {}; accepted are {}milliseconds from 0 (never) to {}",
                                             name, shown(value), else_accepted, longest));
  }
  duration = *milliseconds;
  return {};
}

Result<void> read_endpointing(const std::string& value, NativeRequest& request) {
  if (value == "false") {
    request.endpoint_silence_ms = 0;
    return {};
  }
  return read_duration("endpointing", value, longest_silence_ms, "false and ", request.endpoint_silence_ms);
}

Result<void> read_long_silence(const std::string& value, NativeRequest& request) {
  return read_duration("long_silence", value, longest_silence_ms, "", request.long_silence_ms);
}

Result<void> read_max_segment(const std::string& value, NativeRequest& request) {
  return read_duration("max_segment", value, longest_segment_ms, "", request.max_segment_ms);
}

Result<void> read_output(const std::string& value, NativeRequest& request) {
  if (value == "json") {
    request.output = OutputFormat::json;
  } else if (value == "text") {
    request.output = OutputFormat::text;
  } else {
    return fail("bad_parameter", fmt::format("format is {}; accepted are json and text", shown(value)));
  }
  return {};
}

struct Parameter {
  std::string_view name;
  Result<void> (*read)(const std::string& value, NativeRequest& request);
};

constexpr std::array known_parameters = {
    Parameter{"encoding", read_encoding},
    Parameter{"sample_rate", read_sample_rate},
    Parameter{"channels", read_channels},
    Parameter{"channel", read_channel},
    Parameter{"interim", read_interim},
    Parameter{"words", read_words},
    Parameter{"format", read_output},
    Parameter{"endpointing", read_endpointing},
    Parameter{"long_silence", read_long_silence},
    Parameter{"max_segment", read_max_segment},
    Parameter{"vad_events", read_vad_events},
};

/// The one member called "type". A second one is refused, because readers disagree on which of the two
/// counts.
Result<std::string_view> message_type(const simdjson::dom::object& object) {
  std::optional<simdjson::dom::element> found;
  for (const auto& [key, value] : object) {
    if (key != "type") continue;
    if (found) return fail("bad_message", "the message has more than one \"type\"");
    found = value;
  }
  if (!found)
    return fail("bad_message", "the message has no \"type\"; accepted are finalize, eof and keepalive");
  std::string_view type;
  if (found->get_string().get(type) != simdjson::SUCCESS) {
    return fail("bad_message", "\"type\" is not a string; accepted are finalize, eof and keepalive");
  }
  return type;
}

}  // namespace

Result<NativeRequest> parse_stream_request(std::string_view query) {
  const auto parameters = parse_query(query);
  if (!parameters) return tl::unexpected(parameters.error());

  NativeRequest request;
  std::array<bool, known_parameters.size()> seen{};
  for (const auto& [name, value] : *parameters) {
    const auto known = std::ranges::find(known_parameters, name, &Parameter::name);
    if (known == known_parameters.end()) continue;
    bool& given = seen[static_cast<size_t>(known - known_parameters.begin())];
    if (given) return fail("bad_parameter", fmt::format("{} is given more than once", name));
    given = true;
    if (auto read = known->read(value, request); !read) return tl::unexpected(read.error());
  }
  if (request.coding != AudioCoding::pcm && request.format.mix == ChannelMix::pick) {
    return fail("bad_channels", "channel is for bare samples; the channels of coded audio are averaged");
  }
  if (request.format.picked_channel >= request.format.channels) {
    return fail("bad_channels",
                fmt::format("channel is {} but the audio has {} channel{}; accepted is 0 to {}",
                            request.format.picked_channel, request.format.channels,
                            request.format.channels == 1 ? "" : "s", request.format.channels - 1));
  }
  // Who wants no endpoints wants one segment: the other rules then hold only where they are asked for.
  if (request.endpoint_silence_ms == 0) {
    request.long_silence_ms = request.long_silence_ms.value_or(0);
    request.max_segment_ms = request.max_segment_ms.value_or(0);
  }
  return request;
}

Result<ClientEvent> parse_client_message(std::string_view text) {
  const auto message = JsonMessage::parse(text, max_control_message_bytes);
  if (!message) return tl::unexpected(message.error());
  const auto type = message_type(message->object());
  if (!type) return tl::unexpected(type.error());
  if (*type == "finalize") return Finalize{};
  if (*type == "eof") return Eof{};
  if (*type == "keepalive") return KeepAlive{};
  return fail("unknown_type",
              fmt::format("\"type\" is {}; accepted are finalize, eof and keepalive", shown(*type)));
}

}  // namespace tutti::proto
