#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "actors/recognizer_info.hpp"
#include "config/result.hpp"
#include "engine/engine.hpp"
#include "engine/recognizer_identity.hpp"

namespace tutti::wire {

/// What gateways and engines of a cluster say to each other, over one connection of each pair. The gateway
/// begins with Join, which is answered by Joined or Refused. It names its streams by numbers of its own, each
/// of them once in the life of a connection; whoever loses the connection forgets the streams of it.
///
/// Hosts have clocks of their own, so moments are sent as ages: how long ago they were when the frame was
/// encoded. The time a frame is on its way is not counted.
///
/// Frames are read without trust: whatever the bytes, decode() returns a frame or an error, and takes no more
/// memory than a few times their number. What a StreamSnapshot says of the decoder's state is opaque here; an
/// engine checks no more than its size. So a peer has to be one that is trusted (TLS with a certificate of
/// the cluster's own authority), of the same protocol and program version.

/// Of the frames, and of what is in a StreamSnapshot. Join and Joined say theirs first, and are not read any
/// further when it is another.
inline constexpr uint32_t protocol_version = 1;

/// A longer frame is not read. The largest are those with a snapshot, which has its stream's whole history:
/// with 12 layers of width 256, 24 KiB of each encoder frame, and so room for more than seven minutes.
inline constexpr size_t max_frame_bytes = size_t{256} << 20;

// From the gateway.

struct Join {
  uint32_t protocol = protocol_version;
  std::string version;                         ///< of the program
  std::string gateway;                         ///< its name, for the log
  std::optional<RecognizerIdentity> identity;  ///< what it wants the engine to be; nothing = as it is
};
/// A new stream, on an owner of the engine's: answered by Admitted.
struct Admit {
  uint64_t stream = 0;
  uint32_t owner = 0;
  StreamOptions options;
};
/// What follows is of an admitted stream; for any other number it is ignored.
/// Where a stream goes on that was elsewhere before. First of all.
struct Restore {
  uint64_t stream = 0;
  std::shared_ptr<const StreamSnapshot> snapshot;  ///< not null
};
struct Feed {
  uint64_t stream = 0;
  std::vector<float> samples;  ///< at the model's rate
  Clock::time_point arrival;
};
struct Finalize {
  uint64_t stream = 0;
  Clock::time_point arrival;
};
struct Finish {
  uint64_t stream = 0;
  Clock::time_point arrival;
};
struct Reset {
  uint64_t stream = 0;
};
struct Release {
  uint64_t stream = 0;
};
/// Answered by Pong with the same number.
struct Ping {
  uint64_t number = 0;
};

// From the engine.

/// An owner that a gateway may place streams on. Numbers are not used again.
struct OwnerDescription {
  uint32_t owner = 0;
  RecognizerIdentity identity;
  RecognizerInfo info;  ///< without model_identity, which only the receiver's placement compares
};
struct Joined {
  uint32_t protocol = protocol_version;
  std::string version;  ///< of the program
  std::string engine;   ///< its name, for the log
  std::string device;   ///< what it computes with, in words, with the instruction set
  std::vector<OwnerDescription> owners;
};
/// Instead of Joined; the engine closes the connection after it.
struct Refused {
  uint32_t protocol = protocol_version;
  std::string reason;
};
struct Admitted {
  uint64_t stream = 0;
  std::optional<Error> refusal;
};
/// What a tick says about a stream. After Update::Kind::done and error the stream is no more.
struct Updates {
  uint64_t stream = 0;
  std::vector<Update> updates;                     ///< with the engine's own keys
  std::shared_ptr<const StreamSnapshot> snapshot;  ///< after these updates; null = none now
};
/// Another owner since Joined.
struct OwnerStarted {
  OwnerDescription owner;
};
/// With all of its streams.
struct OwnerLost {
  uint32_t owner = 0;
  std::string reason;
};
struct OwnerState {
  uint32_t owner = 0;
  bool overloaded = false;
  int32_t free = 0;  ///< streams, of all gateways together
};
struct Pong {
  uint64_t number = 0;
  std::vector<OwnerState> owners;  ///< those that answer
};

/// A frame is sent behind its place in this list. The places of the first three, their protocol in front, and
/// all of Refused stay what they are in every protocol, so that another one is recognized as such.
using Frame = std::variant<Join, Joined, Refused, Admit, Admitted, Restore, Feed, Finalize, Finish, Reset,
                           Release, Updates, OwnerStarted, OwnerLost, Ping, Pong>;

/// Moments become ages as of `now`. Longer than max_frame_bytes only with a snapshot that is.
[[nodiscard]] std::vector<std::byte> encode(const Frame& frame, Clock::time_point now);

/// Ages become moments as of `now`. `model` is put into snapshots: the one of the engine that is to restore
/// them, or null where they are only kept. Fails with "bad_frame" for bytes that are not exactly one frame;
/// the message says which field, where in the frame, and why. A Join or Joined of another protocol has the
/// protocol's number and nothing else.
[[nodiscard]] Result<Frame> decode(std::span<const std::byte> bytes, Clock::time_point now,
                                   const std::shared_ptr<const ConformerCtc>& model = nullptr);

}  // namespace tutti::wire
