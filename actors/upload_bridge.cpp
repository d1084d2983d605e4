#include "actors/upload_bridge.hpp"

#include <fmt/format.h>

#include <caf/send.hpp>
#include <utility>

#include "actors/upload_actor.hpp"

namespace tutti {

class UploadSlot {
 public:
  /// Null when all are taken.
  static std::shared_ptr<UploadSlot> take(const std::shared_ptr<std::atomic<int>>& taken,
                                          const std::shared_ptr<Metrics>& metrics, int max_uploads) {
    if (taken->fetch_add(1) >= max_uploads) {
      taken->fetch_sub(1);
      return nullptr;
    }
    return std::make_shared<UploadSlot>(taken, metrics);
  }

  UploadSlot(std::shared_ptr<std::atomic<int>> taken, std::shared_ptr<Metrics> metrics)
      : taken_(std::move(taken)), metrics_(std::move(metrics)) {
    metrics_->upload_opened();
  }
  UploadSlot(const UploadSlot&) = delete;
  UploadSlot& operator=(const UploadSlot&) = delete;
  ~UploadSlot() {
    metrics_->upload_closed();
    taken_->fetch_sub(1);
  }

 private:
  std::shared_ptr<std::atomic<int>> taken_;
  std::shared_ptr<Metrics> metrics_;
};

namespace {

class PlaceBridge final : public UploadPlace {
 public:
  /// `setup` has everything but the request and its sink.
  PlaceBridge(SpawnUpload spawn, GatewayActor gateway, UploadSetup setup)
      : spawn_(std::move(spawn)), gateway_(std::move(gateway)), setup_(std::move(setup)) {}
  PlaceBridge(const PlaceBridge&) = delete;
  PlaceBridge& operator=(const PlaceBridge&) = delete;
  ~PlaceBridge() override {
    // Ahead of whatever is queued: nobody is there to read the transcript.
    if (upload_) caf::anon_send<caf::message_priority::high>(upload_, closed_atom_v);
  }

  void start(UploadRequest request, std::shared_ptr<UploadSink> sink) override {
    setup_.request = std::make_shared<const UploadRequest>(std::move(request));
    setup_.sink = std::move(sink);
    upload_ = spawn_(setup_, gateway_);
  }

  void on_written(size_t bytes) override {
    if (upload_) caf::anon_send(upload_, written_atom_v, static_cast<uint64_t>(bytes));
  }

 private:
  SpawnUpload spawn_;
  GatewayActor gateway_;
  UploadSetup setup_;
  UploadActor upload_;  // null before start
};

}  // namespace

UploadBridge::UploadBridge(SpawnUpload spawn, GatewayActor gateway, std::shared_ptr<Metrics> metrics,
                           const UploadLimits& limits, int credit_ms)
    : spawn_(std::move(spawn)),
      gateway_(std::move(gateway)),
      metrics_(std::move(metrics)),
      terms_({limits, credit_ms}) {}

std::unique_ptr<UploadPlace> UploadBridge::take_place() {
  const Terms& terms = terms_.get();
  auto slot = UploadSlot::take(places_, metrics_, terms.limits.max_uploads);
  if (!slot) {
    metrics_->upload_ended("too_many_uploads");
    return nullptr;
  }
  return std::make_unique<PlaceBridge>(spawn_, gateway_,
                                       UploadSetup{.name = fmt::format("upload-{}", ++uploads_),
                                                   .request = nullptr,
                                                   .sink = nullptr,
                                                   .slot = std::move(slot),
                                                   .metrics = metrics_,
                                                   .credit_ms = terms.credit_ms,
                                                   .max_seconds = terms.limits.max_seconds});
}

}  // namespace tutti
