#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "actors/interfaces.hpp"
#include "actors/metrics.hpp"
#include "actors/ports.hpp"
#include "actors/published.hpp"
#include "actors/upload_job.hpp"

namespace tutti {

struct UploadLimits {
  int max_uploads = 4;         ///< requests being received or transcribed
  int max_seconds = 4 * 3600;  ///< of a file's audio
  bool operator==(const UploadLimits&) const = default;
};

/// Starts an upload actor.
using SpawnUpload = std::function<UploadActor(const UploadSetup& setup, const GatewayActor& gateway)>;

/// Uploads as the network sees them: an upload actor for every request.
class UploadBridge final : public UploadPort {
 public:
  UploadBridge(SpawnUpload spawn, GatewayActor gateway, std::shared_ptr<Metrics> metrics,
               const UploadLimits& limits, int credit_ms);
  [[nodiscard]] std::unique_ptr<UploadPlace> take_place() override;
  /// As to the constructor, for uploads from now on. From one thread at a time.
  void use(const UploadLimits& limits, int credit_ms) { terms_.set({limits, credit_ms}); }

 private:
  struct Terms {
    UploadLimits limits;
    int credit_ms;
    bool operator==(const Terms&) const = default;
  };

  SpawnUpload spawn_;
  GatewayActor gateway_;
  std::shared_ptr<Metrics> metrics_;
  Published<Terms> terms_;
  std::shared_ptr<std::atomic<int>> places_ = std::make_shared<std::atomic<int>>(0);  // taken
  std::atomic<uint64_t> uploads_{0};
};

}  // namespace tutti
