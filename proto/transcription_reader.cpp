#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "proto/multipart.hpp"
#include "proto/query.hpp"
#include "proto/transcription.hpp"

namespace tutti::proto {
namespace {

constexpr std::string_view granularities_field = "timestamp_granularities[]";

struct FormatName {
  std::string_view name;
  TranscriptFormat format;
};
constexpr std::array format_names = {
    FormatName{"json", TranscriptFormat::json},
    FormatName{"text", TranscriptFormat::text},
    FormatName{"verbose_json", TranscriptFormat::verbose_json},
    FormatName{"srt", TranscriptFormat::srt},
    FormatName{"vtt", TranscriptFormat::vtt},
};

// Of a client's value in a message.
constexpr size_t max_quoted_bytes = 64;

ApiError bad_value(std::string_view field, std::string_view value, std::string_view accepted) {
  return {.status = 400,
          .code = "invalid_value",
          .message = fmt::format("{} is \"{}\"; accepted are {}", field, value.substr(0, max_quoted_bytes),
                                 accepted),
          .param = std::string(field)};
}

std::optional<ApiError> set_format(TranscriptionRequest& request, std::string_view value) {
  const auto* const found = std::ranges::find(format_names, value, &FormatName::name);
  if (found == format_names.end()) {
    return bad_value("response_format", value, "json, text, verbose_json, srt and vtt");
  }
  request.format = found->format;
  return std::nullopt;
}

std::optional<ApiError> set_stream(TranscriptionRequest& request, std::string_view value) {
  if (value != "true" && value != "false") return bad_value("stream", value, "true and false");
  request.stream = value == "true";
  return std::nullopt;
}

std::optional<ApiError> add_granularity(TranscriptionRequest& request, std::string_view value) {
  if (value != "word" && value != "segment") return bad_value(granularities_field, value, "word and segment");
  request.words = request.words || value == "word";
  return std::nullopt;
}

std::optional<ApiError> set_field(TranscriptionRequest& request, std::string_view name,
                                  std::string_view value) {
  if (name == "response_format") return set_format(request, value);
  if (name == "stream") return set_stream(request, value);
  if (name == granularities_field || name == "timestamp_granularities")
    return add_granularity(request, value);
  if (name == "language") request.language = value;
  return std::nullopt;
}

ApiError bad_request(const Error& error) {
  return {.status = 400, .code = error.code, .message = error.message, .param = {}};
}

ApiResult<TranscriptionRequest> read_form(std::string_view type, std::string_view body) {
  const auto fields = parse_form(type, body);
  if (!fields) return tl::unexpected(bad_request(fields.error()));
  TranscriptionRequest request;
  bool has_file = false;
  for (const FormField& field : *fields) {
    if (field.name == "file") {
      request.audio = field.content;
      has_file = true;
    } else if (auto error = set_field(request, field.name, field.content)) {
      return tl::unexpected(std::move(*error));
    }
  }
  if (has_file) return request;
  return tl::unexpected(ApiError{.status = 400,
                                 .code = "missing_file",
                                 .message = "the form has no part named \"file\": the audio to transcribe",
                                 .param = "file"});
}

ApiResult<TranscriptionRequest> read_query(std::string_view query, std::string_view body) {
  const auto parameters = parse_query(query);
  if (!parameters) return tl::unexpected(bad_request(parameters.error()));
  TranscriptionRequest request;
  request.audio = body;
  for (const auto& [name, value] : *parameters) {
    if (auto error = set_field(request, name, value)) return tl::unexpected(std::move(*error));
  }
  return request;
}

ApiResult<TranscriptionRequest> read_fields(std::string_view type, std::string_view query,
                                            std::string_view body) {
  const std::string media = media_type(type);
  if (media == "multipart/form-data") return read_form(type, body);
  if (media.starts_with("audio/") || media == "application/octet-stream") return read_query(query, body);
  return tl::unexpected(ApiError{
      .status = 415,
      .code = "unsupported_media_type",
      .message = fmt::format("the Content-Type is \"{}\"; accepted are multipart/form-data with a part named "
                             "\"file\", and audio/* or application/octet-stream for the file itself",
                             std::string_view(media).substr(0, max_quoted_bytes)),
      .param = {}});
}

bool can_stream(TranscriptFormat format) {
  return format == TranscriptFormat::json || format == TranscriptFormat::text;
}

}  // namespace

ApiResult<TranscriptionRequest> parse_transcription_request(std::string_view content_type,
                                                            std::string_view query, std::string_view body) {
  auto request = read_fields(content_type, query, body);
  if (!request || !request->stream || can_stream(request->format)) return request;
  return tl::unexpected(ApiError{.status = 400,
                                 .code = "invalid_value",
                                 .message = "stream=true goes with response_format json and text alone",
                                 .param = "stream"});
}

}  // namespace tutti::proto
