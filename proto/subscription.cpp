#include "proto/subscription.hpp"

#include <fmt/format.h>

#include <charconv>

#include "config/json_writer.hpp"
#include "proto/query.hpp"

namespace tutti::proto {
namespace {

constexpr std::string_view path_begin = "/v1/streams/";
constexpr std::string_view path_end = "/events";

}  // namespace

std::optional<Result<std::string>> watched_stream(std::string_view path) {
  if (!path.starts_with(path_begin)) return std::nullopt;
  path.remove_prefix(path_begin.size());
  if (!path.ends_with(path_end)) return std::nullopt;
  path.remove_suffix(path_end.size());
  if (path.empty() || path.find('/') != std::string_view::npos) return std::nullopt;
  return decode_path_segment(path);
}

std::optional<EventPlace> parse_event_place(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(colon + 1);
  EventPlace place{.session = std::string(text.substr(0, colon)), .number = 0};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), place.number);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return place;
}

std::string write_subscriber_message(SubscriberForm form, std::string_view type, std::string_view json,
                                     const std::optional<EventPlace>& place) {
  if (form == SubscriberForm::websocket) return std::string(json);
  // JSON has no line breaks: the writer escapes them.
  std::string message = place ? fmt::format("id: {}:{}\n", place->session, place->number) : std::string();
  return message + fmt::format("event: {}\ndata: {}\n\n", type, json);
}

std::string missed_json(uint64_t count) {
  JsonWriter json;
  json.begin_object().key("type").string("missed").key("count").integer(static_cast<int64_t>(count));
  json.end_object();
  return std::move(json).take();
}

std::string end_json(std::string_view session) {
  JsonWriter json;
  json.begin_object().key("type").string("end").key("session").string(session).end_object();
  return std::move(json).take();
}

std::string write_callback(const CallbackEnvelope& envelope, std::string_view event_json) {
  JsonWriter json;
  json.begin_object().key("session").string(envelope.session).key("names").begin_array();
  for (const std::string& name : envelope.names) json.string(name);
  json.end_array().key("dialect").string(envelope.dialect);
  if (!envelope.client.empty()) json.key("client").string(envelope.client);
  json.key("number").integer(static_cast<int64_t>(envelope.number)).end_object();
  std::string head = std::move(json).take();
  head.pop_back();
  return fmt::format("{},\"event\":{}}}", head, event_json);
}

std::string event_stream_retry(std::chrono::milliseconds delay) {
  return fmt::format("retry: {}\n\n", delay.count());
}

}  // namespace tutti::proto
