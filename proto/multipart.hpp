#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace tutti::proto {

/// A field of a form. A file's name and type are not kept: what a file holds says more than they do.
struct FormField {
  std::string name;
  std::string_view content;  ///< within the body
};

inline constexpr size_t max_form_fields = 64;
inline constexpr size_t max_field_header_bytes = 8U << 10U;

/// "audio/wav" of "Audio/WAV; rate=16000": the media type of a Content-Type, in lower case.
[[nodiscard]] std::string media_type(std::string_view content_type);

/// Parses a multipart/form-data body (RFC 7578, on the grammar of RFC 2046 section 5.1): the fields in order.
/// `content_type` is the request's, with the boundary, quoted or not. Fails with "bad_multipart". One pass
/// over the body, whatever is in it.
[[nodiscard]] Result<std::vector<FormField>> parse_form(std::string_view content_type, std::string_view body);

}  // namespace tutti::proto
