#include "tests/fuzz/targets.hpp"

#include <algorithm>

#include "proto/dialects.hpp"

namespace tutti {
namespace {

std::vector<FuzzTarget> make_targets() {
  std::vector<FuzzTarget> targets = {
      {"native-request", fuzz::run_native_request},
      {"client-message", fuzz::run_client_message},
      {"query", fuzz::run_query},
      {"base64", fuzz::run_base64},
      {"json", fuzz::run_json},
      {"server-event", fuzz::run_server_event},
      {"multipart", fuzz::run_multipart},
      {"transcription", fuzz::run_transcription},
      {"media-order", fuzz::run_media_order},
      {"stable-text", fuzz::run_stable_text},
      {"audio-file", fuzz::run_audio_file},
      {"coded-audio", fuzz::run_coded_audio},
      {"pcm", fuzz::run_pcm},
      {"audio-intake", fuzz::run_audio_intake},
      {"cluster-frame", fuzz::run_cluster_frame},
      {"proxy-header", fuzz::run_proxy_header},
      {"jwt", fuzz::run_jwt},
      {"jwt-keys", fuzz::run_jwt_keys},
      {"http-request", fuzz::run_http_request},
      {"config-file", fuzz::run_config_file},
      {"api-keys", fuzz::run_api_keys},
  };
  std::vector<std::string> dialects = {"audiosocket"};
  for (const proto::DialectEntry& dialect : proto::dialects()) dialects.emplace_back(dialect.name);
  for (const std::string& name : dialects) {
    targets.push_back(
        {"dialect-" + name, [name](std::span<const std::byte> input) { fuzz::run_dialect(name, input); }});
  }
  return targets;
}

}  // namespace

const std::vector<FuzzTarget>& fuzz_targets() {
  static const std::vector<FuzzTarget> targets = make_targets();
  return targets;
}

const FuzzTarget* find_fuzz_target(const std::string& name) {
  const auto found = std::ranges::find(fuzz_targets(), name, &FuzzTarget::name);
  return found == fuzz_targets().end() ? nullptr : &*found;
}

}  // namespace tutti
