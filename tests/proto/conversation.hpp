#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proto/dialect.hpp"

namespace tutti::proto {

using AcceptFunction = Acceptance (*)(const Handshake& handshake);

/// The session and the time of every handshake in tests.
inline constexpr std::string_view test_session = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
[[nodiscard]] Handshake test_handshake(std::string_view target, Headers headers = {});

/// The text of tests/proto/conversations/NAME.txt.
[[nodiscard]] std::string read_conversation(const std::string& name);

/// Holds the conversation that `script` describes, and writes it down again with what the dialect really
/// answered: the same text when the dialect does what the script says. Lines that begin with `<` or `=` are
/// answers; all others are kept:
///
///     # a comment
///     GET /path?query             the handshake; headers follow, up to an empty line
///     > {"type":"x"}              the client's text
///     > [640 bytes]               the client's binary message, of zeros
///     > [hex 0102ff]              or these; [640 bytes...] is a part of a message that goes on
///     * 0 {"type":"final",...}    track 0 says something, in the native dialect's JSON
///     * 0 heard 640               on_heard
///     * idle                      on_idle
///     * fault CODE MESSAGE        on_fault
///     < {"type":"y"}              a reply; `<~` when it is a partial; [hex 00] when it is binary
///     = open 0 ...                any other action
[[nodiscard]] std::string replay(const std::string& script, AcceptFunction accept);

/// What a client may say, for `torture`.
struct Vocabulary {
  std::vector<std::string> targets;   ///< of handshakes
  std::vector<std::string> messages;  ///< valid texts
  bool replies_are_json = true;
  bool fills_gaps = false;  ///< see SessionRules
  bool has_frames = false;
};

/// Holds many random conversations: true messages, mutated ones and noise, with a recognizer that answers
/// what it is asked. Fails the test when the dialect throws or breaks one of the rules of proto/dialect.hpp.
void torture(AcceptFunction accept, const Vocabulary& vocabulary, unsigned seed);

}  // namespace tutti::proto
