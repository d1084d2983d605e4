#include <fmt/format.h>
#include <openssl/evp.h>
#include <simdjson.h>

#include <algorithm>
#include <string>

#include "config/json_writer.hpp"
#include "config/utf8.hpp"
#include "proto/base64.hpp"
#include "proto/json_message.hpp"
#include "proto/media_order.hpp"
#include "proto/multipart.hpp"
#include "proto/native.hpp"
#include "proto/query.hpp"
#include "proto/server_event.hpp"
#include "proto/stable_text.hpp"
#include "proto/transcription.hpp"
#include "tests/config/broken_rule.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/fuzz/targets.hpp"

namespace tutti::fuzz {
namespace {

using namespace proto;

void require_json(const std::string& text) {
  simdjson::dom::parser parser;
  require(parser.parse(text).error() == simdjson::SUCCESS, fmt::format("this is JSON: {}", text));
}

bool lies_within(std::string_view part, std::string_view whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

std::string percent_encode(std::string_view text) {
  std::string encoded;
  for (const char c : text) encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return encoded;
}

std::string encode_base64(std::span<const std::byte> bytes) {
  std::string text(bytes.size() / 3 * 4 + 5, '\0');
  const int size =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

/// The text with U+FFFD for all that is not UTF-8.
std::string well_formed(std::string_view text) { return utf8_prefix(text, std::string_view::npos); }

/// Whatever an error quotes of the input, what is sent of it is JSON, and short.
void check_error(const Error& error) {
  require(!error.code.empty() && !error.message.empty(), "an error has a code and says something");
  require(error.message.size() < 1000, "an error does not quote all of its input");
  require_json(write_event(ErrorEvent{.error = error, .fatal = true}, OutputFormat::json));
}

void check_members(const simdjson::dom::object& object) {
  for (const auto& [key, value] : object) {
    const auto text = string_in(object, key);
    const auto number = number_in(object, key);
    const auto integer = integer_in(object, key);
    const auto flag = flag_in(object, key);
    const int kinds = int{text.has_value()} + int{number.has_value()} + int{flag.has_value()} +
                      int{is_null(object, key)} + int{object_in(object, key).has_value()} +
                      int{array_in(object, key).has_value()};
    require(kinds == 1, "a member is of one kind");
    require(!integer || number, "a whole number is a number");
    if (!text) continue;
    JsonWriter writer;
    writer.begin_object().key(key).string(*text).end_object();
    const auto again = JsonMessage::parse(std::move(writer).take(), std::string_view::npos);
    require(again && string_in(again->object(), key) == text, "a string is written as it was read");
  }
}

}  // namespace

void run_native_request(std::span<const std::byte> input) {
  const auto request = parse_stream_request(text_of(input));
  if (!request) return check_error(request.error());
  require(request->format.channels >= 1 && request->format.channels <= max_channels &&
              request->format.picked_channel >= 0 &&
              request->format.picked_channel < request->format.channels,
          "the picked channel is one of the channels");
  for (const auto& limit :
       {request->endpoint_silence_ms, request->long_silence_ms, request->max_segment_ms}) {
    require(!limit || *limit >= 0, "a limit is not negative");
  }
}

void run_client_message(std::span<const std::byte> input) {
  const auto event = parse_client_message(text_of(input));
  if (!event) check_error(event.error());
}

void run_query(std::span<const std::byte> input) {
  const auto parameters = parse_query(text_of(input));
  if (!parameters) return check_error(parameters.error());
  std::string encoded;
  for (const auto& [name, value] : *parameters) {
    encoded += fmt::format("&{}={}", percent_encode(name), percent_encode(value));
  }
  const auto again = parse_query(encoded);
  require(again && *again == *parameters, "names and values survive being written and read");
}

void run_base64(std::span<const std::byte> input) {
  const std::string encoded = encode_base64(input);
  const auto decoded = decode_base64(encoded);
  require(decoded && std::ranges::equal(*decoded, input), "what was encoded is decoded");
  const auto bytes = decode_base64(text_of(input));
  if (!bytes) return;
  require(bytes->size() <= input.size() / 4 * 3 + 2, "decoding makes it shorter");
  require(decode_base64(encode_base64(*bytes)) == bytes, "what was decoded can be encoded");
}

void run_json(std::span<const std::byte> input) {
  const std::string_view text = text_of(input);
  JsonWriter writer;
  writer.begin_object().key("x").string(text).end_object();
  const auto written = JsonMessage::parse(std::move(writer).take(), std::string_view::npos);
  require(written && string_in(written->object(), "x") == well_formed(text), "any text can be written");
  const auto message = JsonMessage::parse(text, 4096);
  if (!message) return check_error(message.error());
  require(text.size() <= 4096, "a message has no more bytes than it may have");
  check_members(message->object());
}

void run_server_event(std::span<const std::byte> input) {
  const auto event = parse_server_event(text_of(input));
  if (!event) return check_error(event.error());
  const std::string json = write_event(*event, OutputFormat::json);
  require_json(json);
  const auto again = parse_server_event(json);
  require(again && again->index() == event->index(), "an event is read as it was written");
}

void run_multipart(std::span<const std::byte> input) {
  std::string_view body = text_of(input);
  const std::string_view content_type = take_line(body);
  const auto fields = parse_form(content_type, body);
  if (!fields) return check_error(fields.error());
  require(fields->size() <= max_form_fields, "a form has so many fields and no more");
  const char* end = body.data();
  for (const FormField& field : *fields) {
    require(lies_within(field.content, body), "a field lies within the body");
    require(field.content.data() >= end, "a field lies behind the one before it");
    end = field.content.data() + field.content.size();
  }
}

void run_transcription(std::span<const std::byte> input) {
  std::string_view body = text_of(input);
  const std::string_view content_type = take_line(body);
  const std::string_view query = take_line(body);
  const auto request = parse_transcription_request(content_type, query, body);
  if (request) {
    require(lies_within(request->audio, body), "the file lies within the body");
    return;
  }
  require(request.error().status == 400 || request.error().status == 415, "the mistake is the client's");
  require(request.error().message.size() < 1000, "an error does not quote all of its input");
  require_json(write_api_error(request.error()));
}

void run_media_order(std::span<const std::byte> input) {
  Choices choices(input);
  constexpr Encoding encodings[] = {Encoding::mulaw, Encoding::alaw, Encoding::pcm_s16le,
                                    Encoding::pcm_f32le};
  constexpr int rates[] = {4000, 8000, 16000, 384000};
  const Encoding encoding = encodings[choices.pick(4)];
  const int rate = rates[choices.pick(4)];
  const size_t second = static_cast<size_t>(rate * bytes_per_sample(encoding));
  MediaOrder order(encoding, rate);
  size_t payload = 0;
  size_t frames = 0;
  size_t taken = 0;
  while (!choices.done()) {
    MediaOrder::Frame frame;
    const int kind = choices.pick(8);
    // Numbers and times that are near each other, or any at all.
    if (kind & 1) frame.number = kind & 2 ? static_cast<int64_t>(choices.number()) : choices.byte();
    if (kind & 4)
      frame.timestamp_ms = kind & 2 ? static_cast<int64_t>(choices.number()) : choices.byte() * 20;
    const auto bytes = choices.take(choices.byte());
    frame.payload.assign(bytes.begin(), bytes.end());
    if (order.push(std::move(frame))) {
      payload += bytes.size();
      ++frames;
    }
    const auto audio = order.take();
    taken += audio.size();
    require(audio.size() <= payload + second * MediaOrder::longest_take_ms / 1000,
            "silence comes in small pieces");
    require(taken <= payload + frames * second * MediaOrder::longest_fill_ms / 1000, "silence is limited");
  }
  taken += order.flush().size();
  require(taken >= payload, "no audio is lost");
  require(order.flush().empty() && order.take().empty(), "nothing is left");
}

void run_stable_text(std::span<const std::byte> input) {
  std::string_view text = text_of(input);
  StableText stable;
  std::string sent;
  std::string_view last;
  while (!text.empty()) {
    last = take_line(text);
    const std::string before = sent;
    sent += stable.extend(last);
    require(sent == before || last.starts_with(sent), "what is appended is in the text");
  }
  const std::string added = stable.finish(last);
  require(sent + added == last || (added.empty() && !last.starts_with(sent)), "the end makes it whole");
}

}  // namespace tutti::fuzz
