#pragma once

#include <caf/send.hpp>
#include <cstdint>
#include <memory>
#include <span>

#include "cluster/interfaces.hpp"

namespace tutti {

inline FrameBytes encode_frame(const wire::Frame& frame) {
  const std::vector<std::byte> bytes = wire::encode(frame, Clock::now());
  const auto* const begin = reinterpret_cast<const char*>(bytes.data());
  return {begin, begin + bytes.size()};
}

inline Result<wire::Frame> decode_frame(const FrameBytes& bytes,
                                        const std::shared_ptr<const ConformerCtc>& model = nullptr) {
  return wire::decode(std::as_bytes(std::span(bytes)), Clock::now(), model);
}

inline void send_frame(const FramePeer& to, const wire::Frame& frame) {
  caf::anon_send(to, encode_frame(frame));
}

// A gateway names its streams so that the number says which owner of the engine a stream is on.

inline constexpr int stream_number_bits = 40;

[[nodiscard]] inline uint64_t first_stream_number(uint32_t owner) {
  return uint64_t{owner} << stream_number_bits;
}
[[nodiscard]] inline uint32_t owner_of_stream(uint64_t number) {
  return static_cast<uint32_t>(number >> stream_number_bits);
}

}  // namespace tutti
