#include "actors/movable_stream.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tutti {
namespace {

// A stream that lost its owner longer ago is not suspected of it.
constexpr auto suspicion = std::chrono::minutes(1);

}  // namespace

MovableStream::MovableStream(StreamContext context) : context_(std::move(context)), info_(context_->info()) {}

void MovableStream::feed(std::vector<float> samples, Clock::time_point arrival) {
  const int64_t begin = fed_;
  fed_ += std::ssize(samples);
  journal_.push_back({.samples = make_buffer(std::move(samples)), .begin = begin, .arrival = arrival});
  send_on();
}

void MovableStream::finalize(Clock::time_point arrival) { command(Kind::finalize, arrival); }

void MovableStream::finish(Clock::time_point arrival) { command(Kind::finish, arrival); }

void MovableStream::command(Kind kind, Clock::time_point arrival) {
  ++commands_;
  journal_.push_back({.kind = kind, .samples = nullptr, .begin = fed_, .arrival = arrival});
  send_on();
}

/// Nothing before it matters any more, wherever the stream goes on.
void MovableStream::reset() {
  ++commands_;
  start_ = {.snapshot = nullptr, .sample = fed_, .commands = commands_};
  journal_.clear();
  sent_ = 0;
  if (context_) context_->reset();
}

void MovableStream::send_on() {
  if (!context_) return;
  while (sent_ < journal_.size() && !must_hold(journal_[sent_])) send(journal_[sent_++]);
  if (keeps()) return;
  journal_.clear();
  sent_ = 0;
}

/// A chunk says other things when a command waits behind it. So a command that is sent again waits until its
/// owner has come as far as the last one had, without it, as far as anybody knows.
bool MovableStream::must_hold(const Entry& entry) const {
  if (entry.kind == Kind::audio || reached_ >= heard_samples_) return false;
  const bool has_overlap =
      reached_ > start_.sample || (start_.snapshot && !start_.snapshot->past->features.empty());
  return entry.begin - reached_ >= info_.window_samples - (has_overlap ? info_.overlap_samples : 0);
}

void MovableStream::send(const Entry& entry) const {
  switch (entry.kind) {
    case Kind::audio:
      // Of the first, a part may have been dealt with.
      if (entry.begin < start_.sample) {
        const auto& items = entry.samples->items;
        context_->feed({make_buffer(std::vector(items.begin() + (start_.sample - entry.begin), items.end())),
                        entry.arrival});
      } else {
        context_->feed({entry.samples, entry.arrival});
      }
      break;
    case Kind::finalize:
      context_->finalize(entry.arrival);
      break;
    case Kind::finish:
      context_->finish(entry.arrival);
      break;
  }
}

std::span<const Update> MovableStream::hear(const StreamUpdates& message) {
  const std::span<const Update> updates = message.updates->items;
  for (const Update& update : updates) reached_ += update.consumed_samples;
  if (message.snapshot) keep(message.snapshot);
  if (!has_moved_) {
    for (const Update& update : updates) note(update);
    heard_samples_ = reached_;
    return updates;
  }
  news_.clear();
  for (const Update& update : updates) {
    if (!is_news(update)) continue;
    note(update);
    news_.push_back(update);
    news_.back().consumed_samples = 0;
  }
  if (reached_ > heard_samples_) {
    if (news_.empty()) {
      news_.push_back(updates.back());
      news_.back().kind = Update::Kind::consumed;
    }
    news_.back().consumed_samples = reached_ - heard_samples_;
    heard_samples_ = reached_;
  }
  send_on();
  return news_;
}

bool MovableStream::is_news(const Update& update) const {
  switch (update.kind) {
    case Update::Kind::speech_started:
    case Update::Kind::speech_stopped:
    case Update::Kind::final:
      return update.event >= heard_events_;
    case Update::Kind::partial:
      return update.event >= heard_events_ && reached_ > heard_samples_;
    case Update::Kind::done:
    case Update::Kind::error:
      return true;
    case Update::Kind::consumed:
      break;
  }
  return false;
}

void MovableStream::note(const Update& update) {
  if (is_lasting(update.kind)) heard_events_ = update.event + 1;
  if (update.kind == Update::Kind::final) heard_segments_ = update.segment + 1;
}

void MovableStream::keep(std::shared_ptr<const StreamSnapshot> snapshot) {
  if (snapshot->commands < start_.commands) return;  // from before a reset
  moves_in_a_row_ = 0;
  int64_t commands = start_.commands;
  while (!journal_.empty()) {
    const Entry& first = journal_.front();
    const bool is_done = first.kind == Kind::audio
                             ? first.begin + std::ssize(first.samples->items) <= snapshot->sample
                             : commands < snapshot->commands;
    if (!is_done) break;
    if (first.kind != Kind::audio) ++commands;
    journal_.pop_front();
    --sent_;
  }
  start_ = {.snapshot = snapshot, .sample = snapshot->sample, .commands = snapshot->commands};
}

bool MovableStream::lose_owner(Clock::time_point now) {
  context_.reset();
  if (!keeps()) return false;
  if (heard_samples_ > lost_samples_ || now - lost_at_ > suspicion) moves_in_a_row_ = 0;
  lost_at_ = now;
  lost_samples_ = heard_samples_;
  return ++moves_in_a_row_ <= max_moves_in_a_row;
}

int64_t MovableStream::move_to(StreamContext context) {
  context_.emplace(std::move(context));
  info_ = context_->info();
  has_moved_ = true;
  sent_ = 0;
  reached_ = start_.sample;
  if (start_.snapshot) {
    context_->restore(start_.snapshot);
  } else if (start_.sample > 0 || start_.commands > 0) {
    // After a reset. Of what came before it, the listener has heard what it has.
    context_->restore(std::make_shared<const StreamSnapshot>(StreamSnapshot{.sample = start_.sample,
                                                                            .commands = start_.commands,
                                                                            .events = heard_events_,
                                                                            .segment = heard_segments_,
                                                                            .past = {}}));
  }
  const int64_t dropped = std::max<int64_t>(0, reached_ - heard_samples_);
  heard_samples_ += dropped;
  send_on();
  return dropped;
}

}  // namespace tutti
