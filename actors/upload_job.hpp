#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/metrics.hpp"
#include "actors/movable_stream.hpp"
#include "actors/ports.hpp"
#include "audio/audio_file.hpp"
#include "audio/resampler.hpp"
#include "proto/transcription.hpp"

namespace tutti {

/// One of max_uploads places. The HTTP session and the actor of an upload share it: it is free when neither
/// holds the request any more.
class UploadSlot;

/// What an upload actor is born with.
struct UploadSetup {
  std::string name;  ///< in logs
  std::shared_ptr<const UploadRequest> request;
  std::shared_ptr<UploadSink> sink;
  std::shared_ptr<UploadSlot> slot;
  std::shared_ptr<Metrics> metrics;
  int credit_ms = 4000;
  int max_seconds = 4 * 3600;  ///< of audio
};

/// What an upload actor does: the file is decoded and resampled in pieces, as far ahead of the engine as a
/// live stream's credit would let it, and the engine's finals become the reply. The actor around it adds only
/// the mailbox.
class UploadJob {
 public:
  /// Reads the request and opens the file; has ended, with the reply, when that fails.
  explicit UploadJob(UploadSetup setup);
  UploadJob(const UploadJob&) = delete;
  UploadJob& operator=(const UploadJob&) = delete;
  ~UploadJob();

  [[nodiscard]] StreamOptions options() const;
  void open(StreamContext context);
  /// Or why there is no place for it.
  void refuse(const Error& reason);

  /// Decodes for a while: what fits the credit, but no more than keeps a mailbox waiting shortly. True when
  /// it stopped for the latter, and wants to be called again.
  [[nodiscard]] bool decode();
  void on_updates(const StreamUpdates& message);
  [[nodiscard]] bool is_on(const caf::actor_addr& owner) const { return context_ && context_->is_on(owner); }
  /// Of the owners that could go on with it; once open.
  [[nodiscard]] const std::string& model_identity() const { return context_->info().model_identity; }
  /// Its owner is lost. False, and ended, when no other can go on with it; else open or refuse follow again.
  bool lose_owner();
  /// The client took `bytes` of the reply.
  void on_written(size_t bytes) { unwritten_bytes_ -= static_cast<int64_t>(bytes); }
  void fail(const proto::ApiError& error);

  /// The reply is complete: the actor quits.
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  void read_request();
  void open_file();
  [[nodiscard]] bool has_room() const;
  void decode_piece();
  void finish_audio();
  void feed();
  void on_update(const Update& update);
  void append(const Update& update);
  void reply();
  void begin(unsigned status, std::string_view content_type, std::optional<size_t> content_length);
  void write(std::string piece);
  void end(const std::string& outcome);

  [[nodiscard]] proto::ApiError too_long() const;
  [[nodiscard]] double seconds(int64_t sample) const;

  UploadSetup setup_;
  proto::TranscriptionRequest request_;
  std::optional<AudioFile> file_;  // until its end
  int64_t file_frames_ = 0;        // decoded so far
  std::optional<MovableStream> context_;
  int tag_ = 0;          // of its place: another each time it moves
  bool moving_ = false;  // its owner is lost, and there is no other yet
  std::optional<Resampler> resampler_;
  std::vector<float> raw_;
  std::vector<float> samples_;
  int64_t waiting_samples_ = 0;  // fed and not consumed
  proto::Transcription transcription_;
  int64_t unwritten_bytes_ = 0;  // of the reply
  bool begun_ = false;           // the reply
  bool ended_ = false;
};

}  // namespace tutti
