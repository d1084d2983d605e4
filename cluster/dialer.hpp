#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/credentials.hpp"
#include "config/result.hpp"

namespace tutti {

/// Looks for engines without making anybody wait: CAF connects in the one actor that all connections need,
/// and a host that answers nothing would stop it for minutes. An engine that was just probed is connected to
/// at once.
class Dialer {
 public:
  /// `files` stay readable.
  explicit Dialer(const ClusterCredentials& files);
  /// What has not been answered will not be.
  ~Dialer();
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;

  // Answers come from a thread of this class's, one at a time.

  /// All addresses that "HOST:PORT" has now, as "ADDRESS:PORT".
  using Addresses = std::function<void(Result<std::vector<std::string>>)>;
  void resolve(const std::string& name, Addresses answer);
  /// Whether an engine at "ADDRESS:PORT" is alive, and both sides accept each other's certificates.
  using Outcome = std::function<void(Result<void>)>;
  void probe(const std::string& address, Outcome answer);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// "10.0.0.3:7000", "[fd00::3]:7000"
struct HostPort {
  std::string host;  ///< without brackets
  std::string port;
};
/// Of what the configuration has checked.
[[nodiscard]] HostPort split_host_port(const std::string& text);

/// Throws SetupError for what is not an address of this machine's own networks (loopback, private or
/// link-local), unless anything is allowed.
void check_cluster_address(const std::string& bind, bool allow_any);

}  // namespace tutti
