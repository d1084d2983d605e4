#include "actors/upload_job.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "actors/audio_intake.hpp"
#include "config/log_line.hpp"

namespace tutti {
namespace {

// Interleaved samples decoded before the mailbox gets its turn: some ten milliseconds of work.
constexpr int64_t samples_per_turn = int64_t{1} << 19;
// Of a streamed reply, not yet taken by the client. With more the audio waits.
constexpr int64_t max_unwritten_bytes = 64 << 10;

constexpr std::string_view retry_after_s = "5";

/// What the parts of the server that know nothing of HTTP say, as it says it.
proto::ApiError api_error(const Error& error) {
  const bool is_file = error.code == "bad_audio_file" || error.code == "bad_sample_rate";
  return {.status = is_file ? 400U : 503U,
          .code = error.code,
          .message = error.message,
          .param = is_file ? "file" : ""};
}

proto::ApiError bad_file(std::string code, std::string message) {
  return {.status = 400, .code = std::move(code), .message = std::move(message), .param = "file"};
}

}  // namespace

UploadJob::UploadJob(UploadSetup setup) : setup_(std::move(setup)) { read_request(); }

UploadJob::~UploadJob() {
  if (context_) setup_.metrics->stream_closed();
  if (!ended_) setup_.metrics->upload_ended("cancelled");
}

void UploadJob::read_request() {
  const UploadRequest& http = *setup_.request;
  auto request = proto::parse_transcription_request(http.content_type, http.query, http.body);
  if (!request) return fail(request.error());
  request_ = std::move(*request);
  transcription_.language = request_.language;
  open_file();
}

void UploadJob::open_file() {
  if (request_.audio.empty()) return fail(bad_file("empty_file", "the file is empty"));
  auto file = AudioFile::open_memory(std::as_bytes(std::span(request_.audio)), "the file");
  if (!file) {
    return fail(bad_file(
        file.error().code,
        file.error().message + " Accepted are WAV, FLAC, Ogg (Vorbis, Opus), WebM (Opus), MP3 and AIFF"));
  }
  if (file->frames() > int64_t{setup_.max_seconds} * file->sample_rate()) return fail(too_long());
  file_ = std::move(*file);
}

StreamOptions UploadJob::options() const {
  return {.stream_class = StreamClass::background,
          .interim = false,
          .words = request_.words,
          .endpoint = EndpointRules{},
          .tag = tag_};
}

void UploadJob::open(StreamContext context) {
  if (std::exchange(moving_, false)) {
    setup_.metrics->stream_moved();
    waiting_samples_ -= context_->move_to(std::move(context));
    return;
  }
  auto resampler = Resampler::create(file_->sample_rate(), context.info().sample_rate);
  if (!resampler) return fail(api_error(resampler.error()));
  resampler_ = std::move(*resampler);
  context_.emplace(std::move(context));
  setup_.metrics->stream_opened();
}

bool UploadJob::lose_owner() {
  ++tag_;
  moving_ = context_->lose_owner(Clock::now());
  if (!moving_) fail(api_error({"owner_lost", "the device of this transcription failed; try again"}));
  return moving_;
}

void UploadJob::refuse(const Error& reason) {
  if (moving_) {
    return fail(
        api_error({"owner_lost",
                   "the device of this transcription failed, and no other has a place for it; try again"}));
  }
  setup_.metrics->refused(upload_label, reason.code);
  fail(api_error(reason));
}

bool UploadJob::decode() {
  if (!context_) return false;
  int64_t decoded = 0;
  while (has_room()) {
    if (decoded >= samples_per_turn) return true;
    decode_piece();
    decoded += static_cast<int64_t>(raw_.size()) * (file_ ? file_->channels() : 1);
  }
  return false;
}

bool UploadJob::has_room() const {
  const int64_t window = int64_t{setup_.credit_ms} * context_->info().sample_rate / 1000;
  return file_ && !ended_ && waiting_samples_ < window && unwritten_bytes_ < max_unwritten_bytes;
}

void UploadJob::decode_piece() {
  file_->read(std::max(1, file_->sample_rate() * AudioIntake::piece_ms / 1000), raw_);
  if (raw_.empty()) return finish_audio();
  file_frames_ += static_cast<int64_t>(raw_.size());
  // A header may say less than there is, or nothing.
  if (file_frames_ > int64_t{setup_.max_seconds} * file_->sample_rate()) return fail(too_long());
  resampler_->process(raw_, samples_);
  feed();
}

void UploadJob::finish_audio() {
  if (file_frames_ == 0) return fail(bad_file("empty_audio", "the file holds no audio"));
  file_.reset();
  resampler_->flush(samples_);
  feed();
  context_->finish(Clock::now());
}

void UploadJob::feed() {
  if (samples_.empty()) return;
  const auto count = static_cast<int64_t>(samples_.size());
  waiting_samples_ += count;
  setup_.metrics->audio_fed(seconds(count));
  setup_.sink->note_audio(seconds(count));
  context_->feed(std::exchange(samples_, {}), Clock::now());
}

void UploadJob::on_updates(const StreamUpdates& message) {
  if (message.tag != tag_) return;
  for (const Update& update : context_->hear(message)) {
    if (ended_) return;
    on_update(update);
  }
}

void UploadJob::on_update(const Update& update) {
  waiting_samples_ -= update.consumed_samples;
  if (update.kind == Update::Kind::final) {
    append(update);
  } else if (update.kind == Update::Kind::done) {
    transcription_.duration = seconds(update.audio_samples);
    reply();
  } else if (update.kind == Update::Kind::error) {
    fail({.status = 500, .code = "recognition_failed", .message = update.text, .param = {}});
  }
}

void UploadJob::append(const Update& update) {
  if (update.text.empty()) return;
  if (request_.stream) {
    if (!begun_) begin(200, proto::event_stream_type, std::nullopt);
    write(proto::write_delta_event(transcription_.segments.empty() ? update.text : " " + update.text));
  }
  transcription_.segments.push_back(
      {.start = seconds(update.start_sample), .end = seconds(update.end_sample), .text = update.text});
  const int64_t frame = context_->info().samples_per_frame;
  for (const Word& word : std::span(update.words).first(update.word_count)) {
    transcription_.words.push_back(
        {.word = word.text,
         .start = seconds(update.segment_sample + word.first_frame * frame),
         .end = seconds(update.segment_sample + (int64_t{word.last_frame} + 1) * frame),
         .confidence = word.confidence});
  }
}

void UploadJob::reply() {
  if (request_.stream) {
    if (!begun_) begin(200, proto::event_stream_type, std::nullopt);
    write(proto::write_done_event(transcription_.text()));
  } else {
    std::string body = proto::write_transcription(transcription_, request_.format, request_.words);
    begin(200, proto::content_type(request_.format), body.size());
    write(std::move(body));
  }
  spdlog::info("{}transcribed {:.1f} s", about(setup_.name), transcription_.duration);
  end("done");
}

void UploadJob::fail(const proto::ApiError& error) {
  if (ended_) return;
  spdlog::info("{}code={} ended: {}", about(setup_.name), error.code, error.message);
  if (begun_) {
    write(proto::write_error_event(error));
  } else {
    std::string body = proto::write_api_error(error) + "\n";
    begin(error.status, "application/json", body.size());
    write(std::move(body));
  }
  end(error.code);
}

void UploadJob::begin(unsigned status, std::string_view content_type, std::optional<size_t> content_length) {
  begun_ = true;
  ReplyHead head{.status = status,
                 .content_type = std::string(content_type),
                 .content_length = content_length,
                 .headers = {}};
  if (status == 503) head.headers.emplace_back("Retry-After", retry_after_s);
  setup_.sink->begin(std::move(head));
}

void UploadJob::write(std::string piece) {
  unwritten_bytes_ += static_cast<int64_t>(piece.size());
  setup_.sink->write(std::move(piece));
}

void UploadJob::end(const std::string& outcome) {
  ended_ = true;
  setup_.metrics->upload_ended(outcome);
  setup_.sink->end();
}

proto::ApiError UploadJob::too_long() const {
  return {
      .status = 413,
      .code = "audio_too_long",
      .message = fmt::format("the file holds more than the {} s of audio that this server takes at a time "
                             "(server.max_upload_seconds); send it in parts",
                             setup_.max_seconds),
      .param = "file"};
}

double UploadJob::seconds(int64_t sample) const {
  return static_cast<double>(sample) / context_->info().sample_rate;
}

}  // namespace tutti
