#include "proto/dialects.hpp"

#include <algorithm>

#include "proto/audiohook.hpp"
#include "proto/deepgram.hpp"
#include "proto/native.hpp"
#include "proto/openai_realtime.hpp"
#include "proto/sherpa.hpp"
#include "proto/telephony.hpp"
#include "proto/twilio.hpp"
#include "proto/vosk.hpp"
#include "proto/wenet.hpp"

namespace tutti::proto {
namespace {

constexpr DialectEntry table[] = {
    {.name = "native", .path = "/v1/stream", .usual_port = 0, .accept = accept_native},
    {.name = "vosk", .path = "/vosk", .usual_port = 2700, .accept = accept_vosk},
    {.name = "wenet", .path = "/wenet", .usual_port = 10086, .accept = accept_wenet},
    {.name = "sherpa", .path = "/sherpa", .usual_port = 6006, .accept = accept_sherpa},
    {.name = "deepgram", .path = "/v1/listen", .usual_port = 0, .accept = accept_deepgram},
    {.name = "openai", .path = "/v1/realtime", .usual_port = 0, .accept = accept_openai_realtime},
    {.name = "twilio", .path = "/twilio", .usual_port = 0, .accept = accept_twilio},
    {.name = "jambonz", .path = "/listen", .usual_port = 0, .accept = accept_jambonz},
    {.name = "asterisk", .path = "/asterisk", .usual_port = 0, .accept = accept_asterisk},
    {.name = "audiohook", .path = "/audiohook", .usual_port = 0, .accept = accept_audiohook},
};

const DialectEntry* entry_or_null(const DialectEntry* found) {
  return found == std::end(table) ? nullptr : found;
}

}  // namespace

std::span<const DialectEntry> dialects() { return table; }

const DialectEntry* find_dialect(std::string_view name) {
  return entry_or_null(std::ranges::find(table, name, &DialectEntry::name));
}

const DialectEntry* find_dialect_at(std::string_view path) {
  return entry_or_null(std::ranges::find(table, path, &DialectEntry::path));
}

}  // namespace tutti::proto
