#include "actors/recognition_stream.hpp"

#include <spdlog/spdlog.h>

#include <utility>

namespace tutti {
namespace {

/// Of a refusal: another try may succeed here, elsewhere, or only with another request.
CloseReason close_reason(std::string_view code) {
  if (code == "full" || code == "no_device") return CloseReason::try_again_later;
  if (code == "draining") return CloseReason::going_away;
  return CloseReason::policy;
}

}  // namespace

RecognitionStream::RecognitionStream(StreamSetup setup, const proto::NativeRequest& request)
    : setup_(std::move(setup)), request_(request) {}

RecognitionStream::~RecognitionStream() {
  if (context_) setup_.metrics->stream_closed();
}

StreamOptions RecognitionStream::options() const {
  const EndpointRules& server = setup_.endpoint;
  return {.stream_class = StreamClass::live,
          .interim = request_.interim,
          .words = request_.words,
          .voice_events = request_.vad_events,
          .endpoint = {.silence_after_speech_ms =
                           request_.endpoint_silence_ms.value_or(server.silence_after_speech_ms),
                       .long_silence_ms = request_.long_silence_ms.value_or(server.long_silence_ms),
                       .max_segment_ms = request_.max_segment_ms.value_or(server.max_segment_ms)}};
}

void RecognitionStream::open(StreamContext context) {
  const int model_rate = context.info().sample_rate;
  auto intake = AudioIntake::create(request_.format, request_.sample_rate, model_rate);
  if (!intake) return refuse(intake.error());
  intake_.emplace(std::move(*intake));
  credit_.emplace(setup_.credit_ms, request_.sample_rate, model_rate, frame_bytes(request_.format));
  context_.emplace(std::move(context));
  setup_.metrics->stream_opened();
  const std::string_view client = setup_.sink->client();
  spdlog::info("{}: opened{}{}", setup_.session, client.empty() ? "" : " with the key of ", client);
  send(proto::Ready{.session = setup_.session,
                    .model = context_->info().model,
                    .sample_rate = request_.sample_rate,
                    .chunk_ms = context_->info().chunk_ms});
  grant(credit_->initial_bytes());
  pump();
}

void RecognitionStream::refuse(const Error& reason) {
  setup_.metrics->refused(reason.code);
  fail(reason, close_reason(reason.code));
}

void RecognitionStream::on_audio(const AudioBytes& audio) {
  note_mailbox();
  --setup_.inbox->audio_messages;
  const std::vector<std::byte>& bytes = audio.bytes->items;
  if (ended_ || !intake_) return;
  if (audio_ended_) {
    setup_.metrics->audio_ignored();
    return grant(static_cast<int64_t>(bytes.size()));  // so that the session reads on, up to the close
  }
  intake_->push(bytes);
  arrival_ = audio.arrival;
  pump();
}

void RecognitionStream::on_text(std::string_view message) {
  note_mailbox();
  if (ended_) return;
  const auto event = proto::parse_client_message(message);
  if (!event) {
    setup_.metrics->message_ignored();
    send(proto::ErrorEvent{.error = event.error(), .fatal = false});
    return command_done();
  }
  if (audio_ended_ || std::holds_alternative<proto::KeepAlive>(*event)) return command_done();
  if (std::holds_alternative<proto::Eof>(*event)) return end_audio(true);
  marks_.push_back({.position = intake_ ? intake_->end() : 0,
                    .arrival = Clock::now(),
                    .is_eof = false,
                    .is_clients = true});
  pump();
}

void RecognitionStream::drain() {
  if (audio_ended_) return;
  draining_ = true;
  end_audio(false);
}

void RecognitionStream::end_audio(bool is_clients) {
  audio_ended_ = true;
  marks_.push_back({.position = intake_ ? intake_->end() : 0,
                    .arrival = Clock::now(),
                    .is_eof = true,
                    .is_clients = is_clients});
  pump();
}

void RecognitionStream::pump() {
  while (context_ && !finishing_ && !ended_) {
    const int64_t limit = marks_.empty() ? intake_->end() : marks_.front().position;
    if (intake_->begin() == limit) {
      if (!run_next_mark()) return;
      continue;
    }
    if (waiting_samples_ >= credit_->window_samples()) return;  // a message larger than the credit: in turns
    intake_->convert(limit, samples_);
    // A feature frame's shift at least: many tiny messages of a client become few of the owner's.
    feed(static_cast<size_t>(context_->info().sample_rate / 100));
  }
}

bool RecognitionStream::run_next_mark() {
  if (marks_.empty() || finalizing_) return false;
  const Mark mark = marks_.front();
  marks_.pop_front();
  intake_->flush(samples_);
  feed(1);
  if (mark.is_eof) {
    finishing_ = true;
    context_->finish(mark.arrival);
  } else {
    finalizing_ = true;
    context_->finalize(mark.arrival);
  }
  if (mark.is_clients) command_done();
  return true;
}

void RecognitionStream::feed(size_t at_least) {
  if (samples_.size() < at_least) return;
  const auto count = static_cast<int64_t>(samples_.size());
  waiting_samples_ += count;
  setup_.metrics->audio_fed(seconds(count));
  context_->feed(std::exchange(samples_, {}), arrival_);
}

void RecognitionStream::on_updates(std::span<const Update> updates) {
  for (const Update& update : updates) {
    if (ended_) return;
    on_update(update);
  }
  if (!ended_) pump();
}

void RecognitionStream::on_update(const Update& update) {
  switch (update.kind) {
    case Update::Kind::speech_started:
      send_result(proto::SpeechStarted{.time = seconds(update.start_sample)}, update);
      break;
    case Update::Kind::speech_stopped:
      send_result(proto::SpeechStopped{.time = seconds(update.start_sample)}, update);
      break;
    case Update::Kind::partial:
      send_result(proto::Partial{.segment = update.segment,
                                 .text = update.text,
                                 .start = seconds(update.start_sample),
                                 .end = seconds(update.end_sample)},
                  update);
      break;
    case Update::Kind::final:
      if (update.reason == FinalReason::finalize) finalizing_ = false;
      send_result(final_event(update), update);
      break;
    case Update::Kind::done:
      send(proto::Done{.audio_seconds = seconds(update.audio_samples)});
      if (draining_) return close(CloseReason::going_away, "the server is shutting down");
      return close(CloseReason::normal, "");
    case Update::Kind::error:
      return fail({"recognition_failed", update.text}, CloseReason::internal);
    case Update::Kind::consumed:
      break;
  }
  acknowledge(update.consumed_samples);
}

void RecognitionStream::acknowledge(int64_t samples) {
  if (samples == 0) return;
  waiting_samples_ -= samples;
  grant(credit_->consume(samples));
}

void RecognitionStream::grant(int64_t bytes) {
  setup_.inbox->credit_bytes += bytes;  // first: the session may use it at once
  setup_.sink->grant(bytes);
}

void RecognitionStream::fail(Error error, CloseReason reason) {
  if (ended_) return;
  spdlog::info("{}: ended, {}: {}", setup_.session, error.code, error.message);
  setup_.metrics->error(error.code);
  std::string message = error.message;
  send(proto::ErrorEvent{.error = std::move(error), .fatal = true});
  close(reason, std::move(message));
}

void RecognitionStream::close(CloseReason reason, std::string message) {
  ended_ = true;
  setup_.sink->close(reason, std::move(message));
}

void RecognitionStream::note_mailbox() const {
  setup_.metrics->stream_mailbox(setup_.inbox->audio_messages + setup_.inbox->control_messages);
}

void RecognitionStream::send(const proto::ServerEvent& event) {
  std::string message = proto::write_event(event, request_.output);
  if (message.empty()) return;
  setup_.sink->send(std::move(message), std::holds_alternative<proto::Partial>(event));
}

void RecognitionStream::send_result(const proto::ServerEvent& event, const Update& update) {
  send(event);
  if (update.ready_at == Clock::time_point{}) return;
  setup_.metrics->result_sent(std::chrono::duration<double>(Clock::now() - update.ready_at).count());
}

double RecognitionStream::seconds(int64_t sample) const {
  return static_cast<double>(sample) / context_->info().sample_rate;
}

proto::Final RecognitionStream::final_event(const Update& update) const {
  const int64_t frame = context_->info().samples_per_frame;
  proto::Final event{.segment = update.segment,
                     .text = update.text,
                     .start = seconds(update.start_sample),
                     .end = seconds(update.end_sample),
                     .confidence = update.confidence,
                     .has_words = request_.words,
                     .words = {},
                     .reason = std::string(to_string(update.reason))};
  if (!request_.words) return event;
  event.words.reserve(update.word_count);
  for (const Word& word : std::span(update.words).first(update.word_count)) {
    event.words.push_back({.word = word.text,
                           .start = seconds(update.segment_sample + word.first_frame * frame),
                           .end = seconds(update.segment_sample + (word.last_frame + 1) * frame),
                           .confidence = word.confidence});
  }
  return event;
}

}  // namespace tutti
