#pragma once

#include <caf/actor_addr.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actors/stream_context.hpp"

namespace tutti {

/// A stream that outlives its owner: beside the lease it holds the owner's last snapshot and what was sent
/// since, so that another owner can go on where the stream stopped. What is told again by the new owner is
/// dropped, so that whoever listens hears each thing once, and with owners that compute alike hears what the
/// first would have said.
///
/// Between a snapshot and the next an owner consumes no more than RecognizerInfo::snapshot_samples, a chunk,
/// and what comes while the snapshot waits for its turn and leaves the device, and whoever feeds the stream
/// keeps within its credit: that bounds what is held. With an owner that takes no snapshots nothing is held.
class MovableStream {
 public:
  explicit MovableStream(StreamContext context);

  /// `samples` at the model's rate.
  void feed(std::vector<float> samples, Clock::time_point arrival);
  /// Not while another finalize waits for its final, nor after finish; nor are the others.
  void finalize(Clock::time_point arrival);
  void finish(Clock::time_point arrival);
  void reset();

  /// What is new in a message of the owner's; valid until the next call.
  [[nodiscard]] std::span<const Update> hear(const StreamUpdates& message);

  /// The owner is lost; what is sent from now on waits. False when the stream cannot move: it has been, so
  /// often in a row that it may be the reason.
  [[nodiscard]] bool lose_owner(Clock::time_point now);
  /// To another owner, that has just admitted it. Returns the samples that nobody will hear of any more: a
  /// reset came between.
  [[nodiscard]] int64_t move_to(StreamContext context);

  [[nodiscard]] bool is_on(const caf::actor_addr& owner) const {
    return context_ && context_->owner().address() == owner;
  }
  [[nodiscard]] const RecognizerInfo& info() const { return info_; }

  /// A stream that loses as many owners without having been recognized any further ends with the last.
  static constexpr int max_moves_in_a_row = 2;

 private:
  enum class Kind : uint8_t { audio, finalize, finish };
  struct Entry {
    Kind kind = Kind::audio;
    BufferPtr<float> samples;  // of audio
    int64_t begin = 0;         // its first sample on the stream's clock; where a command is due
    Clock::time_point arrival;
  };
  /// Where another owner would begin.
  struct Start {
    std::shared_ptr<const StreamSnapshot> snapshot;  // null = without a past
    int64_t sample = 0;
    int64_t commands = 0;
  };

  [[nodiscard]] bool keeps() const { return info_.snapshot_samples > 0; }
  void command(Kind kind, Clock::time_point arrival);
  void send_on();
  void send(const Entry& entry) const;
  [[nodiscard]] bool must_hold(const Entry& entry) const;
  void keep(std::shared_ptr<const StreamSnapshot> snapshot);
  [[nodiscard]] bool is_news(const Update& update) const;
  void note(const Update& update);

  std::optional<StreamContext> context_;  // nothing while it has no owner
  RecognizerInfo info_;
  int64_t fed_ = 0;       // samples
  int64_t commands_ = 0;  // asked for

  Start start_;
  std::deque<Entry> journal_;  // from start_ on
  size_t sent_ = 0;            // of it, to this owner
  int64_t reached_ = 0;        // sample up to which this owner has consumed

  // What was heard, of this owner or another.
  int64_t heard_samples_ = 0;
  int64_t heard_events_ = 0;
  int32_t heard_segments_ = 0;

  int moves_in_a_row_ = 0;
  Clock::time_point lost_at_{};
  int64_t lost_samples_ = -1;  // heard_samples_ then
  bool has_moved_ = false;
  std::vector<Update> news_;
};

}  // namespace tutti
