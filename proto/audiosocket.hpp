#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "proto/dialect.hpp"

namespace tutti::proto {

/// Asterisk's AudioSocket, a protocol on TCP without a handshake: frames of a kind (u8), the payload's length
/// (u16, big endian) and the payload. See docs/dialects.md.
enum class AudioSocketKind : uint8_t {
  hangup = 0x00,
  uuid = 0x01,   ///< of the call, 16 bytes
  dtmf = 0x03,   ///< one key, in ASCII
  audio = 0x10,  ///< 16-bit little endian, one channel, at 8000 Hz; the kinds up to 0x18 are of higher rates
  error = 0xff,
};

/// In Hz; 0 when the kind is none of audio.
[[nodiscard]] int audiosocket_rate(AudioSocketKind kind);

/// Takes a stream of bytes apart into frames, however they were cut on their way.
class AudioSocketParser {
 public:
  /// Of a frame. One without a payload is one empty piece.
  struct Piece {
    AudioSocketKind kind{};
    size_t frame_bytes = 0;  ///< of the whole payload
    std::span<const std::byte> bytes;
    bool ends_frame = false;
  };

  void feed(std::span<const std::byte> bytes, const std::function<void(const Piece& piece)>& on_piece);

 private:
  std::array<uint8_t, 3> header_{};
  size_t header_bytes_ = 0;
  size_t frame_bytes_ = 0;
  size_t left_ = 0;  // of the frame
};

/// One call. What comes as binary messages are the connection's bytes, however they were cut. Nothing is sent
/// back: the protocol has no place for it.
[[nodiscard]] std::unique_ptr<Dialect> make_audiosocket();

}  // namespace tutti::proto
