#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "net/connection.hpp"
#include "net/door.hpp"
#include "net/server.hpp"
#include "net/tls_context.hpp"
#include "net/visit.hpp"

namespace tutti {

/// What the connections of one server share: its sockets' io_context, the options of those to come, ports and
/// counters, the accept loop and the list of open connections.
///
/// Server, connections and sinks own it together, so an executor never outlives its io_context. Handlers of
/// the hub itself name it by plain pointer: they wait in its own io_context.
class Hub : public std::enable_shared_from_this<Hub> {
 public:
  /// Throws SetupError as check_listener, and when a port is taken.
  Hub(const NetOptions& options, GatewayPort& gateway_port, const StatusPort& status_port,
      UploadPort& upload_port, SubscriptionPort& subscription_port);

  void start_accepting();
  /// Open connections go on. From any thread.
  void stop_accepting();
  /// Also ends every connection, open or still being accepted. From any thread.
  void shut_down();
  [[nodiscard]] std::string address() const { return listeners().front().address; }
  [[nodiscard]] std::vector<ListenerAddress> listeners() const;
  /// As NetServer::use. From any thread.
  void use(const NetOptions& options);
  /// Asks the door; `answer` is called on the hub's strand. From any thread.
  void admit(Ask ask, std::function<void(Admitted<Visit>)> answer);

 private:
  friend class ConnectionTicket;
  friend class Visit;
  using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;

  /// A listening socket and its accept loop.
  struct Listener {
    enum class Kind { http, admin, audiosocket };
    Listener(const Strand& strand, boost::asio::ip::tcp::endpoint where, Kind what,
             const proto::DialectEntry* root)
        : acceptor(strand), retry(strand), endpoint(std::move(where)), kind(what), root_dialect(root) {}

    boost::asio::ip::tcp::acceptor acceptor;
    boost::asio::steady_timer retry;
    boost::asio::ip::tcp::endpoint endpoint;
    Kind kind;
    const proto::DialectEntry* root_dialect;  // spoken at "/"; null = none
    bool accept_pending = false;
    bool accept_failing = false;
  };

  struct Entry {
    std::weak_ptr<Connection> connection;
    std::string address_account;  // at the door
  };

  void listen(Listener& listener, std::string_view flag);
  void accept_next();
  void accept_on(Listener& listener);
  void on_accept(Listener& listener, const boost::system::error_code& error,
                 boost::asio::ip::tcp::socket socket);
  void serve(Listener& listener, ConnectionTicket ticket, boost::asio::ip::tcp::socket socket);
  void retry_later(Listener& listener, const boost::system::error_code& error);
  void assign(uint64_t id, std::weak_ptr<Connection> connection);
  void forget(uint64_t id);
  void claim_address(uint64_t id, std::string account, const std::function<void(bool)>& answer);

 public:
  boost::asio::io_context io;
  GatewayPort& gateway;
  const StatusPort& status;
  UploadPort& uploads;
  SubscriptionPort& subscriptions;
  AdminPort* admin = nullptr;  // set before accepting
  NetStats stats;

 private:
  const bool has_tls_;
  const bool has_admin_port_;
  Strand strand_;
  // Everything below is touched on the strand only.
  std::shared_ptr<const NetOptions> options_;  // of what is accepted next
  std::shared_ptr<TlsContext> tls_;            // null = none
  std::deque<Listener> listeners_;             // never empty; the first is that of NetOptions::bind
  std::unordered_map<uint64_t, Entry> connections_;
  Door door_;
  uint64_t next_id_ = 0;
  bool stopped_accepting_ = false;
  bool shutting_down_ = false;
};

}  // namespace tutti
