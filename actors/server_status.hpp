#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "actors/metrics.hpp"
#include "actors/ports.hpp"
#include "actors/published.hpp"
#include "config/result.hpp"

namespace tutti {

/// Whether a new stream would get a place.
enum class Room : uint8_t {
  free,        ///< yes, or it would wait for one
  full,        ///< every place is taken
  overloaded,  ///< the streams there are come late
  no_device,   ///< no owner is left
};

/// What a stream is told that gets no place. Not for `free`.
[[nodiscard]] Error refusal_of(Room room);
[[nodiscard]] Error draining_refusal();

/// Readiness and metrics for the HTTP side. Actors say what changes, in any thread; nobody is asked.
class ServerStatus final : public StatusPort {
 public:
  explicit ServerStatus(Metrics& metrics) : metrics_(metrics) {}

  void set_listening() { listening_ = true; }
  /// For good.
  void set_draining() { draining_ = true; }
  /// Whether all owners recognize.
  void set_owners_complete(bool complete) { owners_complete_ = complete; }
  void set_room(Room room) { room_ = room; }
  void set_hung_owner(bool hung) { hung_owner_ = hung; }
  [[nodiscard]] bool has_hung_owner() const { return hung_owner_; }
  /// That new streams are recognized with.
  void set_model(const ModelInfo& model) {
    metrics_.model(model.name);
    model_.set(model);
  }

  [[nodiscard]] bool ready() const override { return listening_ && !draining_ && owners_complete_; }
  [[nodiscard]] std::optional<Error> refusal(std::string_view dialect) const override;
  void note_refusal(std::string_view dialect, const std::string& reason) const override {
    metrics_.refused(dialect, reason);
  }
  [[nodiscard]] std::string metrics() const override { return metrics_.text(); }
  [[nodiscard]] ModelInfo model() const override { return model_.get(); }

 private:
  Metrics& metrics_;
  std::atomic<bool> listening_{false};
  std::atomic<bool> draining_{false};
  std::atomic<bool> owners_complete_{false};  // until placement has looked
  std::atomic<bool> hung_owner_{false};
  std::atomic<Room> room_{Room::free};
  Published<ModelInfo> model_{ModelInfo{}};
};

}  // namespace tutti
