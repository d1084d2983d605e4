#pragma once

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/atom.hpp>
#include <caf/intrusive_ptr.hpp>
#include <caf/make_counted.hpp>
#include <caf/ref_counted.hpp>
#include <caf/type_id.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/ports.hpp"
#include "actors/recognizer_info.hpp"
#include "actors/tick_timeline.hpp"
#include "config/result.hpp"
#include "engine/engine.hpp"
#include "proto/native.hpp"

namespace tutti {

class StreamContext;

/// Immutable contents of a message, counted: a message that is copied shares it.
template <class T>
struct Buffer : caf::ref_counted {
  explicit Buffer(std::vector<T> values) : items(std::move(values)) {}
  const std::vector<T> items;
};

template <class T>
using BufferPtr = caf::intrusive_ptr<const Buffer<T>>;

template <class T>
[[nodiscard]] BufferPtr<T> make_buffer(std::vector<T> values) {
  return caf::make_counted<const Buffer<T>>(std::move(values));
}

/// What a session received, as its client encoded it.
struct AudioBytes {
  BufferPtr<std::byte> bytes;
  Clock::time_point arrival;
  bool ends_message = true;  ///< else the rest of a WebSocket message follows
};

struct TextMessage {
  std::string text;
  Clock::time_point arrival;
};

/// The same at the model's rate, in [-1, 1).
struct AudioSamples {
  BufferPtr<float> samples;
  Clock::time_point arrival;
};

/// A command that follows all audio sent before it.
struct SegmentCommand {
  StreamKey key;
  Clock::time_point arrival;  ///< of what asked for it
};

/// Everything one tick says about one stream, in order; nothing where only a snapshot has come.
struct StreamUpdates {
  BufferPtr<Update> updates;
  int tag = 0;  ///< StreamOptions::tag of the stream
  /// Now and then, the stream as it was after these updates, or after some before them; in order.
  std::shared_ptr<const StreamSnapshot> snapshot = nullptr;
  TracedTick traced = {};  ///< where sessions are traced
};

/// From which a stream that moved goes on.
struct StreamStart {
  StreamKey key;
  std::shared_ptr<const StreamSnapshot> snapshot;
};

/// A stream that wants a place.
struct PlaceRequest {
  StreamOptions options;
  bool is_move = false;          ///< it had one, on an owner that is lost
  std::string model_identity{};  ///< of that owner: only another of the same model can go on with the stream
};

/// An owner's answer to a ping.
struct OwnerHealth {
  bool overloaded = false;  ///< its streams come late
  int free = 0;             ///< streams that it would admit
};

/// A granted lease on its way to its stream. The lease is move-only and messages are not; whoever drops the
/// last copy of an unopened message thereby gives the slot back.
using Admission = Result<std::shared_ptr<StreamContext>>;
using Started = Result<RecognizerInfo>;

// What the event hub is told of a session, by the number that its feed has.

struct SessionOpening {
  uint64_t number = 0;
  std::string session;
  std::string client;  ///< the name of its API key
  std::string dialect;
  bool is_heard_elsewhere = false;  ///< proto::Dialect::is_heard_elsewhere
};
struct SessionName {
  uint64_t number = 0;
  std::string name;
};
struct SessionEvent {
  uint64_t number = 0;
  proto::TrackName track;
  std::shared_ptr<const proto::ServerEvent> event;
};

struct Subscription {
  SubscriptionRequest request;
  SubscriptionPort::Answer answer;
};
struct SubscriptionStart {
  uint64_t place = 0;
  std::shared_ptr<SessionSink> sink;
};

}  // namespace tutti

// Messages of one process: they are never serialized.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::StreamKey)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::StreamOptions)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::SegmentCommand)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::AudioBytes)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::TextMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::Error)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::AudioSamples)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::StreamUpdates)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::StreamStart)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::PlaceRequest)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::OwnerHealth)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::Admission)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::Started)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::SessionOpening)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::SessionName)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::SessionEvent)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::Subscription)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::SubscriptionStart)

CAF_BEGIN_TYPE_ID_BLOCK(tutti, caf::first_custom_type_id)

CAF_ADD_ATOM(tutti, tutti, start_atom, "start")
CAF_ADD_ATOM(tutti, tutti, admit_atom, "admit")
CAF_ADD_ATOM(tutti, tutti, feed_atom, "feed")
CAF_ADD_ATOM(tutti, tutti, finalize_atom, "finalize")
CAF_ADD_ATOM(tutti, tutti, finish_atom, "finish")
CAF_ADD_ATOM(tutti, tutti, reset_atom, "reset")
CAF_ADD_ATOM(tutti, tutti, release_atom, "release")
CAF_ADD_ATOM(tutti, tutti, tick_atom, "tick")
CAF_ADD_ATOM(tutti, tutti, wake_atom, "wake")
CAF_ADD_ATOM(tutti, tutti, ping_atom, "ping")
CAF_ADD_ATOM(tutti, tutti, restore_atom, "restore")

CAF_ADD_ATOM(tutti, tutti, audio_atom, "audio")
CAF_ADD_ATOM(tutti, tutti, text_atom, "text")
CAF_ADD_ATOM(tutti, tutti, closed_atom, "closed")
CAF_ADD_ATOM(tutti, tutti, fault_atom, "fault")
CAF_ADD_ATOM(tutti, tutti, idle_atom, "idle")
CAF_ADD_ATOM(tutti, tutti, update_atom, "update")

CAF_ADD_ATOM(tutti, tutti, decode_atom, "decode")
CAF_ADD_ATOM(tutti, tutti, written_atom, "written")

CAF_ADD_ATOM(tutti, tutti, open_atom, "open")
CAF_ADD_ATOM(tutti, tutti, place_atom, "place")
CAF_ADD_ATOM(tutti, tutti, vacate_atom, "vacate")
CAF_ADD_ATOM(tutti, tutti, join_atom, "join")
CAF_ADD_ATOM(tutti, tutti, swap_atom, "swap")
CAF_ADD_ATOM(tutti, tutti, rules_atom, "rules")
CAF_ADD_ATOM(tutti, tutti, watch_atom, "watch")
CAF_ADD_ATOM(tutti, tutti, lost_atom, "lost")
CAF_ADD_ATOM(tutti, tutti, grace_atom, "grace")
CAF_ADD_ATOM(tutti, tutti, drain_atom, "drain")
CAF_ADD_ATOM(tutti, tutti, stop_atom, "stop")

CAF_ADD_ATOM(tutti, tutti, name_atom, "name")
CAF_ADD_ATOM(tutti, tutti, event_atom, "event")
CAF_ADD_ATOM(tutti, tutti, subscribe_atom, "subscribe")

CAF_END_TYPE_ID_BLOCK(tutti)
