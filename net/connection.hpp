#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace tutti {

class Hub;
struct NetOptions;

/// One accepted socket, whatever is spoken on it.
class Connection {
 public:
  virtual ~Connection() = default;
  /// Ends it soon, from any thread.
  virtual void shut_down() = 0;
};

/// A connection's entry at the hub. Held by whatever serves the socket, handed on when an HTTP connection
/// becomes a WebSocket session; its destruction frees the place.
class ConnectionTicket {
 public:
  ConnectionTicket(std::shared_ptr<Hub> hub, uint64_t id, std::shared_ptr<const NetOptions> options)
      : hub_(std::move(hub)), id_(id), options_(std::move(options)) {}
  ConnectionTicket(ConnectionTicket&&) noexcept = default;
  ConnectionTicket& operator=(ConnectionTicket&&) = delete;
  ~ConnectionTicket();

  /// Counts the connection as one of an address; `answer` says whether there may be another one.
  void claim_address(std::string account, std::function<void(bool)> answer) const;
  /// Names the object that serves the socket from now on.
  void assign(std::weak_ptr<Connection> connection) const;
  [[nodiscard]] Hub& hub() const { return *hub_; }
  [[nodiscard]] const std::shared_ptr<Hub>& shared_hub() const { return hub_; }
  /// Those that were in force when the connection was accepted: it keeps them.
  [[nodiscard]] const std::shared_ptr<const NetOptions>& options() const { return options_; }

 private:
  std::shared_ptr<Hub> hub_;
  uint64_t id_;
  std::shared_ptr<const NetOptions> options_;
};

}  // namespace tutti
