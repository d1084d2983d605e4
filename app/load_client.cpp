#include "app/load_client.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "app/client_message.hpp"
#include "proto/server_event.hpp"

namespace tutti {

using Clock = std::chrono::steady_clock;

int64_t window_end_ms(double end_seconds, int chunk_ms) {
  constexpr int64_t look_ahead_ms = 45;
  const auto end_ms = std::max<int64_t>(std::llround(end_seconds * 1000), 1);
  return (end_ms + chunk_ms - 1) / chunk_ms * chunk_ms + look_ahead_ms;
}

void LoadClient::start() {
  clip_ = &clips_[next_clip_++ % clips_.size()];
  sent_at_.clear();
  eof_sent_ = heard_something_ = done_ = false;
  text_.clear();
  error_.clear();
  const auto url = with_defaults(
      url_,
      {{"encoding", "pcm_s16le"}, {"sample_rate", std::to_string(clip_->sample_rate)}, {"words", "false"}});
  client_ = std::make_unique<WsClient>(loop_, *url, api_key_, *this);
  client_->connect();
}

double LoadClient::ms_since(Pace::TimePoint then) const {
  return std::chrono::duration<double, std::milli>(Clock::now() - then).count();
}

void LoadClient::on_message(std::string_view message) {
  const auto event = proto::parse_server_event(message);
  if (!event) {
    error_ = event.error().message;
  } else {
    std::visit([this](const auto& e) { on_event(e); }, *event);
  }
}

void LoadClient::on_event(const proto::Ready& ready) {
  chunk_ms_ = std::max(ready.chunk_ms, 1);
  pace_ = Pace(clip_->sample_rate, Clock::now());
  send_next();
}

void LoadClient::on_event(const proto::Partial& partial) {
  if (partial.text.empty() || sent_at_.empty()) return;
  if (!std::exchange(heard_something_, true)) results_.first_partial.push_back(ms_since(sent_at_.front()));
  const int64_t last_sample = window_end_ms(partial.end, chunk_ms_) * clip_->sample_rate / 1000 - 1;
  const auto frame = static_cast<size_t>(last_sample / Pace::frame_samples(clip_->sample_rate));
  if (frame < sent_at_.size()) results_.chunk.push_back(ms_since(sent_at_[frame]));
}

void LoadClient::on_event(const proto::Final& final) {
  if (final.reason == "eof" && eof_sent_) results_.final.push_back(ms_since(eof_sent_at_));
  text_ += final.text + " ";
}

void LoadClient::on_event(const proto::Done& done) {
  done_ = true;
  ++results_.sessions;
  results_.audio_seconds += done.audio_seconds;
  if (clip_->text) results_.words += count_word_errors(*clip_->text, text_);
}

void LoadClient::on_event(const proto::ErrorEvent& error) { error_ = error.error.message; }

void LoadClient::on_end(const ClientEnd& end) {
  if (!done_) ++results_.failures[error_.empty() ? describe(end, url_) : "the server said: " + error_];
  // A server that refuses is not asked again at once.
  const auto next = Clock::now() + (done_ ? std::chrono::milliseconds(0) : std::chrono::milliseconds(500));
  if (next < end_) loop_.call_at(next, [this] { start(); });
}

void LoadClient::send_next() {
  if (!client_->can_send() || eof_sent_) return;
  const int64_t frame = Pace::frame_samples(clip_->sample_rate);
  const int64_t begin = static_cast<int64_t>(sent_at_.size()) * frame;
  const int64_t count = std::min(frame, clip_->samples() - begin);
  if (count <= 0) {
    eof_sent_ = true;
    eof_sent_at_ = Clock::now();
    return client_->send_text(R"({"type":"eof"})");
  }
  const auto due = pace_.spoken(begin + count);
  const auto now = Clock::now();
  if (due > now) return loop_.call_at(due, [this] { send_next(); });
  results_.send_lag.push_back(ms_since(due));
  sent_at_.push_back(now);
  client_->send_binary(clip_->audio.substr(static_cast<size_t>(begin) * sizeof(int16_t),
                                           static_cast<size_t>(count) * sizeof(int16_t)));
}

}  // namespace tutti
