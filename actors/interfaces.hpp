#pragma once

#include <caf/actor_addr.hpp>
#include <caf/replies_to.hpp>
#include <caf/timespan.hpp>
#include <caf/typed_actor.hpp>
#include <functional>
#include <string>
#include <vector>

#include "actors/messages.hpp"

namespace tutti {

/// One session of one client: its messages in, events out through its SessionSink.
/// Mailbox: at most the session's audio credit plus one message, and max_control_messages; a session that
/// sends more is ended (`overrun`).
using StreamActor = caf::typed_actor<caf::reacts_to<audio_atom, AudioBytes>,      // from the session
                                     caf::reacts_to<text_atom, TextMessage>,      // from the session
                                     caf::reacts_to<closed_atom>,                 // the peer is gone
                                     caf::reacts_to<fault_atom, Error>,           // the session has to end
                                     caf::reacts_to<update_atom, StreamUpdates>,  // from an owner
                                     caf::reacts_to<lost_atom, caf::actor_addr>,  // an owner: ask for another
                                     caf::reacts_to<idle_atom>,   // from itself: is the client silent?
                                     caf::reacts_to<drain_atom>,  // finish: deliver finals, then close
                                     caf::reacts_to<stop_atom>>;  // close at once

/// A stream whose audio is a file and whose client is an HTTP request. Mailbox: of the owner's updates what
/// the credit allows, and a few messages more.
using UploadActor =
    StreamActor::extend<caf::reacts_to<decode_atom>,              // from itself: the next turn of decoding
                        caf::reacts_to<written_atom, uint64_t>>;  // bytes of the reply the client took

/// The only code that touches a device's Engine. Mailbox: what its streams' credits allow.
using GpuOwner = caf::typed_actor<
    caf::replies_to<start_atom>::with<Started>,
    caf::replies_to<admit_atom, StreamOptions, StreamActor>::with<Admission>,
    caf::reacts_to<feed_atom, StreamKey, AudioSamples>, caf::reacts_to<finalize_atom, SegmentCommand>,
    caf::reacts_to<finish_atom, SegmentCommand>, caf::reacts_to<reset_atom, StreamKey>,
    caf::reacts_to<release_atom, StreamKey>, caf::reacts_to<restore_atom, StreamStart>,
    caf::replies_to<ping_atom>::with<OwnerHealth>, caf::reacts_to<tick_atom>, caf::reacts_to<wake_atom>>;

/// An owner that was started.
struct PlacedOwner {
  GpuOwner actor{};
  int max_streams = 0;
  std::string model_identity{};            ///< RecognizerInfo's
  std::function<GpuOwner()> replace = {};  ///< spawns another for the same device; empty = there is none
  bool is_remote = false;                  ///< comes and goes: the server is complete without it
  bool is_shared = false;                  ///< others place streams on it too: it says how many are free
};

struct PlacementRules {
  std::chrono::milliseconds max_wait{0};          ///< of a new stream for a place; 0 = refused at once
  size_t max_waiting = 100;                       ///< new streams that wait; one more is refused
  std::chrono::milliseconds owner_timeout{5000};  ///< an owner that does not answer for so long is lost
  bool owners_may_join = false;                   ///< there is hope while there is none
};

/// Owners of another model, or of the same used in another way. Started.
struct NewOwners {
  std::vector<PlacedOwner> owners;
};

/// Chooses the owner of a stream, and watches the owners. Mailbox: a message or two of each stream and owner.
using PlacementActor =
    caf::typed_actor<caf::replies_to<place_atom, PlaceRequest, StreamActor>::with<Admission>,
                     caf::reacts_to<vacate_atom, int, StreamActor>,  // by StreamOptions::tag
                     caf::reacts_to<join_atom, PlacedOwner>,         // there is another owner
                     // Streams left on owners that have retired, when new streams get these.
                     caf::replies_to<swap_atom, NewOwners>::with<int>,
                     caf::reacts_to<rules_atom, PlacementRules>,
                     caf::reacts_to<idle_atom>,         // from itself: who has waited too long?
                     caf::reacts_to<watch_atom>,        // from itself: do the owners answer?
                     caf::reacts_to<start_atom, int>>;  // from itself: replace an owner

/// Knows all sessions and those who watch them. Mailbox: of partials and voice events max_unpublished; the
/// rest is bounded by what is recognized.
using EventHubActor =
    caf::typed_actor<caf::reacts_to<open_atom, SessionOpening>, caf::reacts_to<name_atom, SessionName>,
                     caf::reacts_to<event_atom, SessionEvent>,
                     caf::reacts_to<closed_atom, uint64_t>,  // the session of a number
                     caf::reacts_to<subscribe_atom, Subscription>,
                     caf::reacts_to<start_atom, SubscriptionStart>,
                     caf::reacts_to<release_atom, uint64_t>,  // a place
                     caf::reacts_to<idle_atom>,   // from itself: is an ended session to be forgotten?
                     caf::reacts_to<stop_atom>>;  // close all subscribers, and quit

/// Lets streams in, and out again when the server ends. Quits when it is drained.
using GatewayActor =
    caf::typed_actor<caf::replies_to<open_atom, PlaceRequest, StreamActor>::with<Admission>,
                     // A stream of a session that goes on has ended.
                     caf::reacts_to<vacate_atom, int, StreamActor>, caf::reacts_to<drain_atom>,
                     caf::reacts_to<grace_atom, caf::timespan>,  // of a drain that is still to come
                     caf::reacts_to<grace_atom>,                 // from itself: the grace period is over
                     caf::reacts_to<stop_atom>>;

}  // namespace tutti

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::PlacedOwner)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::NewOwners)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::PlacementRules)
