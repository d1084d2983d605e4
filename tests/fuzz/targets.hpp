#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// Something that reads what anyone may send.
struct FuzzTarget {
  std::string name;
  /// Throws BrokenRule when the input makes it break one.
  std::function<void(std::span<const std::byte> input)> run;
};

/// All of them: one for each dialect of proto/dialects.hpp, named `dialect-NAME`, and those of the readers.
[[nodiscard]] const std::vector<FuzzTarget>& fuzz_targets();
/// Null when there is none.
[[nodiscard]] const FuzzTarget* find_fuzz_target(const std::string& name);

namespace fuzz {

/// A conversation as tests/proto/conversation.hpp writes it down, whose answers are not looked at. What a
/// track says is said when it is its turn, see CheckedSession. A line `* again` holds the lines since the
/// handshake many times more: the session must not grow.
void run_dialect(const std::string& name, std::span<const std::byte> input);

void run_native_request(std::span<const std::byte> input);
void run_client_message(std::span<const std::byte> input);
void run_query(std::span<const std::byte> input);
void run_base64(std::span<const std::byte> input);
void run_json(std::span<const std::byte> input);
void run_server_event(std::span<const std::byte> input);
void run_multipart(std::span<const std::byte> input);
void run_transcription(std::span<const std::byte> input);
void run_media_order(std::span<const std::byte> input);
void run_stable_text(std::span<const std::byte> input);
void run_audio_file(std::span<const std::byte> input);
void run_coded_audio(std::span<const std::byte> input);
void run_pcm(std::span<const std::byte> input);
void run_audio_intake(std::span<const std::byte> input);
void run_proxy_header(std::span<const std::byte> input);
void run_jwt(std::span<const std::byte> input);
void run_jwt_keys(std::span<const std::byte> input);
void run_http_request(std::span<const std::byte> input);
void run_config_file(std::span<const std::byte> input);
void run_api_keys(std::span<const std::byte> input);

void run_cluster_frame(std::span<const std::byte> input);

}  // namespace fuzz
}  // namespace tutti
