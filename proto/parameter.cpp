#include "proto/parameter.hpp"

#include <fmt/format.h>

#include <charconv>

#include "audio/pcm.hpp"
#include "audio/resampler.hpp"

namespace tutti::proto {

std::string shown(std::string_view value) {
  constexpr size_t longest = 40;
  if (value.size() <= longest) return fmt::format("\"{}\"", value);
  return fmt::format("\"{}...\"", value.substr(0, longest));
}

std::optional<int> parse_int(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> parse_flag(std::string_view text) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  return std::nullopt;
}

Result<int> parse_sample_rate(std::string_view value) {
  const auto rate = parse_int(value);
  if (!rate || *rate < min_sample_rate || *rate > max_sample_rate) {
    return fail("bad_sample_rate",
                fmt::format("sample_rate is {}; accepted is a whole number of Hz from {} to {}", shown(value),
                            min_sample_rate, max_sample_rate));
  }
  return *rate;
}

Result<int> parse_channels(std::string_view value) {
  const auto channels = parse_int(value);
  if (!channels || *channels < 1 || *channels > max_channels) {
    return fail("bad_channels",
                fmt::format("channels is {}; accepted is 1 to {}", shown(value), max_channels));
  }
  return *channels;
}

Result<void> read_flag(std::string_view name, std::string_view value, bool& flag) {
  const auto given = parse_flag(value);
  if (!given) {
    return fail("bad_parameter", fmt::format("{} is {}; accepted are true and false", name, shown(value)));
  }
  flag = *given;
  return {};
}

}  // namespace tutti::proto
