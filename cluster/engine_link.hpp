#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "cluster/interfaces.hpp"

namespace tutti {

struct EngineLinkSetup {
  FramePeer host;       ///< the engine's EngineHost
  std::string address;  ///< of the engine
  wire::Join join{};
  std::shared_ptr<const ConformerCtc> model;  ///< of this process's own owners; null = it has none
  Directory directory;
};

struct EngineLinkState {
  EngineLinkState() = default;  // an aggregate would be initialised from the actor's own address
  FramePeer engine;             // its GatewayLink, once joined
  std::unordered_map<uint32_t, RemoteOwner> owners;
  uint64_t pings = 0;
  bool pinged = false;  // just now
};

/// An engine that has not answered for so long is left alone for a while.
inline constexpr std::chrono::seconds join_timeout{5};

/// Joins an engine, tells the directory what it has, and hands what it says to its owners here. Ends, with a
/// reason in the log, when the connection is lost or the engine says what it should not; its owners end with
/// it.
EngineLink::behavior_type engine_link(EngineLink::stateful_pointer<EngineLinkState> self,
                                      const EngineLinkSetup& setup);

}  // namespace tutti
