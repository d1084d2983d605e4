#include "net/server.hpp"

#include <boost/asio/executor_work_guard.hpp>

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "net/hub.hpp"

namespace tutti {
namespace {

// A handler that throws loses its own connection and no other: what one client causes never ends the server.
void run_io(boost::asio::io_context& io) {
  while (true) {
    try {
      io.run();
      return;
    } catch (const std::exception& error) {
      spdlog::error("a connection ended by an exception: {}", error.what());
    }
  }
}

}  // namespace

struct NetServer::Impl {
  using WorkGuard = boost::asio::executor_work_guard<boost::asio::io_context::executor_type>;

  std::shared_ptr<Hub> hub;
  int io_threads = 1;
  std::optional<WorkGuard> work;
  std::vector<std::thread> threads;
};

NetServer::NetServer(const NetOptions& options, GatewayPort& gateway, const StatusPort& status,
                     UploadPort& uploads, SubscriptionPort& subscriptions)
    : impl_(std::make_unique<Impl>()) {
  impl_->hub = std::make_shared<Hub>(options, gateway, status, uploads, subscriptions);
  impl_->io_threads = std::max(1, options.io_threads);
}

NetServer::~NetServer() { stop(); }

std::string NetServer::address() const { return impl_->hub->address(); }

std::vector<ListenerAddress> NetServer::listeners() const { return impl_->hub->listeners(); }

const NetStats& NetServer::stats() const { return impl_->hub->stats; }

void NetServer::start() {
  impl_->work.emplace(impl_->hub->io.get_executor());
  impl_->hub->start_accepting();
  for (int i = 0; i < impl_->io_threads; ++i) {
    impl_->threads.emplace_back([hub = impl_->hub.get()] { run_io(hub->io); });
  }
}

void NetServer::use(const NetOptions& options) { impl_->hub->use(options); }

void NetServer::use_admin(AdminPort& admin) { impl_->hub->admin = &admin; }

// Every operation of a connection ends once its socket is closed, so run() returns without being stopped and
// no handler is left behind that would keep a connection alive.
void NetServer::stop() {
  if (impl_->threads.empty()) return;
  impl_->hub->shut_down();
  impl_->work.reset();
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->threads.clear();
}

}  // namespace tutti
