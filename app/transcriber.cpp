#include "app/transcriber.hpp"

#include <algorithm>
#include <deque>
#include <optional>

#include "audio/audio_file.hpp"
#include "audio/resampler.hpp"

namespace tutti {

namespace {

/// A file on its way through the engine.
class Job {
 public:
  Job(Engine& engine, std::string file) : engine_(engine), start_(Clock::now()) {
    transcript_.file = std::move(file);
  }

  [[nodiscard]] bool finished() const { return finished_; }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  [[nodiscard]] const Transcript& transcript() const { return transcript_; }
  [[nodiscard]] bool owns(StreamKey key) const { return key_ == key; }
  [[nodiscard]] double seconds_recognized() const { return seconds_recognized_; }

  void start() {
    auto file = AudioFile::open(transcript_.file);
    if (!file) return end(file.error());
    auto resampler = Resampler::create(file->sample_rate(), engine_.sample_rate());
    if (!resampler) return end(resampler.error());
    const auto key = engine_.admit({.stream_class = StreamClass::background, .interim = false});
    if (!key) return end(key.error());
    file_ = std::move(*file);
    resampler_ = std::move(*resampler);
    key_ = *key;
    start_ = Clock::now();
  }

  // Feeds until the engine holds a few chunks of audio, so that memory does not grow with the file.
  void feed() {
    while (key_ && !finished_ && file_ && waiting_samples_ < read_ahead()) {
      file_->read(file_->sample_rate(), raw_);
      resampled_.clear();
      if (raw_.empty()) {
        resampler_->flush(resampled_);
      } else {
        resampler_->process(raw_, resampled_);
      }
      const auto fed = engine_.feed(*key_, resampled_);
      if (!fed) return end(fed.error());
      waiting_samples_ += static_cast<int64_t>(resampled_.size());
      if (raw_.empty()) {
        file_.reset();
        if (const auto asked = engine_.finish(*key_); !asked) return end(asked.error());
      }
    }
  }

  void take(const Update& update) {
    waiting_samples_ -= update.consumed_samples;
    const double rate = engine_.sample_rate();
    seconds_recognized_ += static_cast<double>(update.consumed_samples) / rate;
    switch (update.kind) {
      case Update::Kind::final:
        append(update);
        break;
      case Update::Kind::done:
        transcript_.audio_seconds = static_cast<double>(update.audio_samples) / rate;
        seconds_recognized_ = transcript_.audio_seconds;
        end(std::nullopt);
        break;
      case Update::Kind::error:
        key_.reset();  // released by the engine
        end(Error{"recognition_failed", update.text});
        break;
      case Update::Kind::speech_started:
      case Update::Kind::speech_stopped:
      case Update::Kind::partial:
      case Update::Kind::consumed:
        break;
    }
  }

 private:
  [[nodiscard]] int64_t read_ahead() const {
    return int64_t{4} * engine_.chunk_ms() * engine_.sample_rate() / 1000;
  }

  void append(const Update& update) {
    if (!update.text.empty() && !transcript_.text.empty()) transcript_.text += ' ';
    transcript_.text += update.text;
    const double rate = engine_.sample_rate();
    const auto time = [&](int64_t frame) {
      return static_cast<double>(update.segment_sample + frame * engine_.samples_per_frame()) / rate;
    };
    for (size_t i = 0; i < update.word_count; ++i) {
      const Word& word = update.words[i];
      transcript_.words.push_back(
          {word.text, time(word.first_frame), time(int64_t{word.last_frame} + 1), word.confidence});
    }
  }

  void end(std::optional<Error> error) {
    if (error && key_) engine_.release(*key_);
    error_ = std::move(error);
    transcript_.wall_seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    finished_ = true;
    file_.reset();
    key_.reset();
  }

  Engine& engine_;
  Clock::time_point start_;
  Transcript transcript_;
  std::optional<AudioFile> file_;
  std::optional<Resampler> resampler_;
  std::optional<StreamKey> key_;
  std::optional<Error> error_;
  std::vector<float> raw_;
  std::vector<float> resampled_;
  int64_t waiting_samples_ = 0;
  double seconds_recognized_ = 0;
  bool finished_ = false;
};

}  // namespace

void Transcriber::run(const std::vector<std::string>& files,
                      const std::function<void(const Transcript&)>& on_done,
                      const std::function<void(const TranscriptError&)>& on_error,
                      const std::function<void(double seconds)>& on_progress) {
  const int width = std::min(engine_.config().max_batch_size, engine_.free_streams());
  std::deque<Job> jobs;  // those in flight and those finished whose turn to be told has not come
  size_t next_file = 0;
  double told_seconds = 0;
  while (next_file < files.size() || !jobs.empty()) {
    while (jobs.size() < static_cast<size_t>(width) && next_file < files.size()) {
      jobs.emplace_back(engine_, files[next_file++]).start();
    }
    for (Job& job : jobs) job.feed();
    for (const Update& update : engine_.tick()) {
      const auto job =
          std::find_if(jobs.begin(), jobs.end(), [&](const Job& j) { return j.owns(update.key); });
      if (job != jobs.end()) job->take(update);
    }
    double seconds = told_seconds;
    for (const Job& job : jobs) seconds += job.seconds_recognized();
    on_progress(seconds);
    while (!jobs.empty() && jobs.front().finished()) {
      const Job& job = jobs.front();
      told_seconds += job.seconds_recognized();
      if (job.error()) {
        on_error({job.transcript().file, *job.error()});
      } else {
        on_done(job.transcript());
      }
      jobs.pop_front();
    }
  }
}

}  // namespace tutti
