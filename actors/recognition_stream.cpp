#include "actors/recognition_stream.hpp"

#include <spdlog/spdlog.h>

#include <utility>

#include "config/log_line.hpp"

namespace tutti {

RecognitionStream::RecognitionStream(TrackSetup setup, TrackListener& listener)
    : setup_(std::move(setup)), listener_(listener), trace_(setup_.trace, setup_.track) {
  trace_.note_wait(Clock::now());
}

RecognitionStream::~RecognitionStream() {
  if (context_) setup_.metrics->stream_closed();
}

StreamOptions RecognitionStream::options() const {
  const EndpointRules& server = setup_.endpoint;
  const proto::StreamRequest& request = setup_.request;
  return {.stream_class = StreamClass::live,
          .interim = request.interim,
          .words = request.words,
          .voice_events = request.vad_events,
          .endpoint = {
              .silence_after_speech_ms = request.endpoint_silence_ms.value_or(server.silence_after_speech_ms),
              .long_silence_ms = request.long_silence_ms.value_or(server.long_silence_ms),
              .max_segment_ms = request.max_segment_ms.value_or(server.max_segment_ms)}};
}

void RecognitionStream::open(StreamContext context) {
  trace_.note_place(moving_);
  if (std::exchange(moving_, false)) {
    setup_.metrics->stream_moved();
    spdlog::info("{}goes on with another owner", about(setup_.session, setup_.track));
    acknowledge(context_->move_to(std::move(context)));
    return pump();
  }
  const RecognizerInfo& info = context.info();
  const PcmFormat format = is_coded() ? PcmFormat{} : setup_.request.format;
  const int rate = setup_.request.sample_rate == 0 ? info.sample_rate : setup_.request.sample_rate;
  auto intake = AudioIntake::create({.coding = setup_.request.coding, .pcm = format, .sample_rate = rate},
                                    info.sample_rate);
  if (!intake) return refuse(intake.error());
  intake_.emplace(std::move(*intake));
  intake_->push(std::exchange(early_, {}));
  credit_.emplace(setup_.credit_ms, rate, info.sample_rate, frame_bytes(format));
  context_.emplace(std::move(context));
  setup_.metrics->stream_opened();
  listener_.on_event(setup_.track, proto::Ready{.session = setup_.session,
                                                .model = context_->info().model,
                                                .sample_rate = rate,
                                                .chunk_ms = context_->info().chunk_ms});
  listener_.give_back(credit_->initial_bytes());
  pump();
}

bool RecognitionStream::lose_owner() {
  const Clock::time_point now = Clock::now();
  trace_.note_wait(now);
  moving_ = context_->lose_owner(now);
  if (!moving_) fail({"owner_lost", "the device of this stream failed; connect again"});
  return moving_;
}

void RecognitionStream::refuse(const Error& reason) {
  if (moving_)
    return fail({"owner_lost", "the device of this stream failed, and no other has a place for it"});
  setup_.metrics->refused(setup_.dialect_name, reason.code);
  fail(reason);
}

void RecognitionStream::on_audio(std::span<const std::byte> bytes, Clock::time_point arrival) {
  if (intake_) {
    intake_->push(bytes);
  } else {
    early_.insert(early_.end(), bytes.begin(), bytes.end());
  }
  arrival_ = arrival;
  trace_.note_audio(arrival, bytes.size());
  if (fed_samples_ == 0 && !wordless_since_) wordless_since_ = arrival;
  pump();
}

void RecognitionStream::finalize(Clock::time_point arrival, Receipt receipt) {
  mark(Command::finalize, arrival, std::move(receipt));
}

void RecognitionStream::reset(Clock::time_point arrival, Receipt receipt) {
  mark(Command::reset, arrival, std::move(receipt));
}

void RecognitionStream::finish(Clock::time_point arrival, Receipt receipt) {
  mark(Command::finish, arrival, std::move(receipt));
}

SessionTrace::Kind RecognitionStream::traced_as(Command command) {
  switch (command) {
    case Command::finalize:
      return SessionTrace::Kind::finalize;
    case Command::reset:
      return SessionTrace::Kind::reset;
    case Command::finish:
      break;
  }
  return SessionTrace::Kind::finish;
}

void RecognitionStream::mark(Command command, Clock::time_point arrival, Receipt receipt) {
  if (!takes_audio()) return;
  audio_ended_ = command == Command::finish;
  trace_.note(traced_as(command), arrival);
  marks_.push_back(
      {.command = command, .position = received(), .arrival = arrival, .receipt = std::move(receipt)});
  pump();
}

int64_t RecognitionStream::received() const {
  return intake_ ? intake_->end() : static_cast<int64_t>(early_.size());
}

void RecognitionStream::pump() {
  pump_audio();
  give_back_decoded();
  report_heard();
}

void RecognitionStream::pump_audio() {
  while (context_ && !finishing_ && !closed_) {
    const int64_t limit = marks_.empty() ? intake_->end() : marks_.front().position;
    if (intake_->has_converted(limit)) {
      if (!run_next_mark()) return;
      continue;
    }
    if (waiting_samples_ >= credit_->window_samples()) return;  // a message larger than the credit: in turns
    if (auto converted = intake_->convert(limit, samples_); !converted)
      return fail(std::move(converted.error()));
    // A feature frame's shift at least: many tiny messages of a client become few of the owner's.
    feed(static_cast<size_t>(context_->info().sample_rate / 100));
  }
}

bool RecognitionStream::run_next_mark() {
  if (marks_.empty() || finalizing_) return false;
  const Mark mark = std::move(marks_.front());
  marks_.pop_front();
  intake_->flush(samples_);
  feed(1);
  switch (mark.command) {
    case Command::finalize:
      finalizing_ = true;
      context_->finalize(mark.arrival);
      break;
    case Command::reset:
      context_->reset();
      break;
    case Command::finish:
      finishing_ = true;
      context_->finish(mark.arrival);
      break;
  }
  return true;
}

void RecognitionStream::feed(size_t at_least) {
  if (samples_.size() < at_least) return;
  const auto count = static_cast<int64_t>(samples_.size());
  waiting_samples_ += count;
  fed_samples_ += count;
  setup_.metrics->audio_fed(seconds(count));
  listener_.note_audio(seconds(count));
  context_->feed(std::exchange(samples_, {}), arrival_);
}

void RecognitionStream::on_updates(const StreamUpdates& message) {
  trace_.note_tick(message.traced);
  for (const Update& update : context_->hear(message)) {
    if (closed_) break;
    on_update(update);
  }
  trace_.note_told(message.traced);
  if (!closed_) pump();
}

void RecognitionStream::on_update(const Update& update) {
  switch (update.kind) {
    case Update::Kind::speech_started:
      trace_.note_result(SessionTrace::Kind::voice);
      send_result(proto::SpeechStarted{.time = seconds(update.start_sample)}, update);
      break;
    case Update::Kind::speech_stopped:
      trace_.note_result(SessionTrace::Kind::voice);
      send_result(proto::SpeechStopped{.time = seconds(update.start_sample)}, update);
      break;
    case Update::Kind::partial:
      trace_.note_result(SessionTrace::Kind::partial, update.segment);
      send_result(proto::Partial{.segment = update.segment,
                                 .text = update.text,
                                 .start = seconds(update.start_sample),
                                 .end = seconds(update.end_sample)},
                  update);
      break;
    case Update::Kind::final:
      trace_.note_result(SessionTrace::Kind::final, update.segment);
      if (update.reason == FinalReason::finalize) finalizing_ = false;
      send_result(final_event(update), update);
      setup_.metrics->final_sent(std::chrono::duration<double>(Clock::now() - update.ready_at).count());
      break;
    case Update::Kind::done:
      close();
      listener_.on_event(setup_.track, proto::Done{.audio_seconds = seconds(update.audio_samples)});
      return;
    case Update::Kind::error:
      return fail({"recognition_failed", update.text});
    case Update::Kind::consumed:
      break;
  }
  acknowledge(update.consumed_samples);
}

void RecognitionStream::acknowledge(int64_t samples) {
  if (samples == 0) return;
  waiting_samples_ -= samples;
  const int64_t bytes = credit_->consume(samples);
  if (!is_coded()) listener_.give_back(bytes);
}

void RecognitionStream::give_back_decoded() {
  if (!is_coded() || !intake_ || closed_) return;
  const int64_t bytes = intake_->begin() - std::exchange(given_back_, intake_->begin());
  if (bytes > 0) listener_.give_back(bytes);
}

/// Whether nothing more comes of what was received: it has all been fed, and is too little for a chunk.
bool RecognitionStream::is_idle() const {
  return marks_.empty() && !finalizing_ && intake_->has_converted(intake_->end()) &&
         waiting_samples_ < context_->info().window_samples;
}

void RecognitionStream::report_heard() {
  if (!context_ || finishing_ || closed_) return;
  const int64_t all = is_coded() ? credit_->bytes_of(fed_samples_) : intake_->end();
  const int64_t heard = is_idle() ? all : credit_->returned_bytes();
  if (heard <= heard_) return;
  heard_ = heard;
  listener_.on_heard(setup_.track, heard);
}

void RecognitionStream::fail(Error error) {
  if (closed_) return;
  const bool is_ours = proto::close_reason(error.code) == proto::CloseReason::internal;
  spdlog::log(is_ours ? spdlog::level::err : spdlog::level::info, "{}code={} ended: {}",
              about(setup_.session, setup_.track), error.code, error.message);
  setup_.metrics->error(setup_.dialect_name, error.code);
  trace_.note_result(SessionTrace::Kind::error);
  close();
  listener_.on_event(setup_.track, proto::ErrorEvent{.error = std::move(error), .fatal = true});
}

/// The session is left with the credit it had before this stream.
void RecognitionStream::close() {
  closed_ = true;
  marks_.clear();
  if (!credit_) return listener_.give_back(received());
  const int64_t given_back = is_coded() ? given_back_ : credit_->returned_bytes();
  listener_.give_back(received() - credit_->initial_bytes() - given_back);
}

void RecognitionStream::send_result(const proto::ServerEvent& event, const Update& update) {
  listener_.on_event(setup_.track, event);
  note_words(update);
  if (update.ready_at == Clock::time_point{}) return;
  setup_.metrics->result_sent(std::chrono::duration<double>(Clock::now() - update.ready_at).count());
}

void RecognitionStream::note_words(const Update& update) {
  if (update.text.empty() || !wordless_since_ || *wordless_since_ == Clock::time_point{}) return;
  setup_.metrics->first_text(std::chrono::duration<double>(Clock::now() - *wordless_since_).count());
  wordless_since_ = Clock::time_point{};
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
                     .has_words = setup_.request.words,
                     .words = {},
                     .reason = std::string(to_string(update.reason))};
  if (!setup_.request.words) return event;
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
