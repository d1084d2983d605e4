#pragma once

#include <caf/typed_actor.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/interfaces.hpp"
#include "cluster/wire.hpp"
#include "engine/recognizer_identity.hpp"

namespace tutti {

/// A frame of cluster/wire.hpp, and the only message that leaves a process. CAF knows the type, and copies it
/// as it is.
using FrameBytes = std::vector<char>;

/// An actor of another process.
using FramePeer = caf::typed_actor<caf::reacts_to<FrameBytes>>;

/// An owner of this process that other processes may use.
struct SharedOwner {
  GpuOwner actor;
  RecognizerInfo info;
  RecognizerIdentity identity;
  std::shared_ptr<const ConformerCtc> model;
};

/// What a process is found by: the port of an engine leads to it. Mailbox: a frame of each gateway that
/// joins, a message of each owner.
using EngineHost = caf::typed_actor<caf::reacts_to<FrameBytes>,              // a gateway wants to join
                                    caf::reacts_to<join_atom, SharedOwner>,  // that has started
                                    caf::reacts_to<drain_atom>>;             // give all streams up

/// A gateway, as its engine sees it; to the owners it is the streams of that gateway. Mailbox: what the
/// credit of these streams allows, in frames and in updates.
using GatewayLink = StreamActor::extend<caf::reacts_to<FrameBytes>,  // from the gateway
                                        caf::reacts_to<join_atom, uint32_t, SharedOwner>>;  // by its number

/// An owner of another process.
using RemoteOwner = GpuOwner::extend<caf::reacts_to<wire::Admitted>, caf::reacts_to<wire::Updates>,
                                     caf::reacts_to<wire::OwnerState>>;

/// An engine, as its gateway sees it. Mailbox: what the credit of the gateway's streams allows.
using EngineLink = caf::typed_actor<caf::reacts_to<FrameBytes>,                        // from the engine
                                    caf::reacts_to<join_atom, uint32_t, RemoteOwner>,  // by its number
                                    caf::reacts_to<ping_atom>,   // from its owners: do they answer?
                                    caf::reacts_to<wake_atom>,   // from itself: pings may be sent again
                                    caf::reacts_to<idle_atom>>;  // from itself: has the engine answered?

/// All addresses of a name.
struct Resolved {
  std::string name;
  Result<std::vector<std::string>> addresses;  ///< "ADDRESS:PORT"
};
/// Whether an engine could be spoken to.
struct Probed {
  std::string address;
  Result<void> outcome;
};

/// Knows the engines of a gateway. Mailbox: a few messages of each engine and owner.
using Directory = caf::typed_actor<caf::reacts_to<watch_atom>,  // from itself: who is to be tried now?
                                   caf::reacts_to<Resolved>, caf::reacts_to<Probed>,
                                   // From the engine at an address; the actor is its GatewayLink.
                                   caf::reacts_to<join_atom, std::string, FramePeer, wire::Joined>,
                                   caf::reacts_to<start_atom, std::string, wire::OwnerDescription>,
                                   caf::reacts_to<lost_atom, std::string, uint32_t>,
                                   caf::reacts_to<fault_atom, std::string, Error>>;

}  // namespace tutti

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::SharedOwner)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::Resolved)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::Probed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::wire::Admitted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::wire::Updates)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::wire::OwnerState)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::wire::Joined)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::wire::OwnerDescription)
