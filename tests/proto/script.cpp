#include "tests/proto/script.hpp"

#include <simdjson.h>

#include <algorithm>
#include <charconv>

#include "proto/server_event.hpp"

namespace tutti::proto {
namespace {

// A script is read whatever is in it, and asks for no more memory than a client's message may have.
constexpr int64_t max_binary_bytes = 1 << 20;
constexpr int64_t max_track = 1'000'000;

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<int64_t> take_number(std::string_view& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

std::optional<std::vector<std::byte>> parse_hex(std::string_view digits) {
  if (digits.size() % 2 != 0) return std::nullopt;
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    uint8_t byte = 0;
    const char* const end = digits.data() + i + 2;
    if (std::from_chars(digits.data() + i, end, byte, 16).ptr != end) return std::nullopt;
    bytes.push_back(std::byte{byte});
  }
  return bytes;
}

/// `[640 bytes]` or `[hex 0102ff]`; with `...` before the bracket's end when the message goes on.
std::optional<ClientBinary> parse_binary(std::string_view text) {
  if (!text.starts_with('[') || !text.ends_with(']')) return std::nullopt;
  text = text.substr(1, text.size() - 2);
  const bool goes_on = text.ends_with("...");
  if (goes_on) text.remove_suffix(3);
  if (take(text, "hex ")) {
    auto bytes = parse_hex(text);
    if (!bytes) return std::nullopt;
    return ClientBinary{std::move(*bytes), !goes_on};
  }
  const auto count = take_number(text);
  if (!count || *count < 0 || *count > max_binary_bytes || text != " bytes") return std::nullopt;
  return ClientBinary{std::vector<std::byte>(static_cast<size_t>(*count)), !goes_on};
}

std::vector<WordTime> words_of(std::string_view json) {
  simdjson::dom::parser parser;
  std::vector<WordTime> words;
  simdjson::dom::array array;
  if (parser.parse(json.data(), json.size())["words"].get_array().get(array) != simdjson::SUCCESS)
    return words;
  for (const auto element : array) {
    std::string_view word;
    double start = 0;
    double end = 0;
    double confidence = 0;
    if (element["word"].get(word) != simdjson::SUCCESS || element["start"].get(start) != simdjson::SUCCESS ||
        element["end"].get(end) != simdjson::SUCCESS ||
        element["confidence"].get(confidence) != simdjson::SUCCESS) {
      return {};
    }
    words.push_back({.word = std::string(word),
                     .start = start,
                     .end = end,
                     .confidence = static_cast<float>(confidence)});
  }
  return words;
}

std::optional<ServerEvent> parse_event(std::string_view json) {
  auto event = parse_server_event(json);
  if (!event) return std::nullopt;
  if (auto* final = std::get_if<Final>(&*event)) {
    final->words = words_of(json);
    final->has_words = !final->words.empty();
  }
  if (auto* error = std::get_if<ErrorEvent>(&*event)) error->fatal = true;
  return std::move(*event);
}

/// What follows `* `.
std::optional<Happening> parse_server_side(std::string_view text) {
  if (text == "idle") return Idle{};
  if (take(text, "fault ")) {
    const size_t space = std::min(text.find(' '), text.size());
    return Fault{
        {std::string(text.substr(0, space)), std::string(text.substr(std::min(space + 1, text.size())))}};
  }
  const auto track = take_number(text);
  if (!track || *track < 0 || *track > max_track || !take(text, " ")) return std::nullopt;
  if (take(text, "heard ")) {
    const auto bytes = take_number(text);
    if (!bytes || !text.empty()) return std::nullopt;
    return TrackHeard{static_cast<int>(*track), *bytes};
  }
  auto event = parse_event(text);
  if (!event) return std::nullopt;
  return TrackSays{static_cast<int>(*track), std::move(*event)};
}

}  // namespace

std::optional<Happening> parse_happening(std::string_view line) {
  if (take(line, "* ")) return parse_server_side(line);
  if (!take(line, "> ")) return std::nullopt;
  if (auto binary = parse_binary(line)) return std::move(*binary);
  return ClientText{std::string(line)};
}

std::optional<std::pair<std::string, std::string>> parse_header(std::string_view line) {
  const size_t colon = line.find(": ");
  if (colon == std::string_view::npos) return std::nullopt;
  return std::pair{std::string(line.substr(0, colon)), std::string(line.substr(colon + 2))};
}

}  // namespace tutti::proto
