#include "actors/session_trace.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "config/json_writer.hpp"

namespace tutti {
namespace {

using std::chrono::duration_cast;
using Kind = SessionTrace::Kind;

enum class Row : uint8_t { session, client, recognition, results };
constexpr int rows_of_a_track = 3;

struct Description {
  const char* name;
  Row row;
  const char* value = nullptr;  // what it is; null = it has none
};

Description description(Kind kind) {
  switch (kind) {
    case Kind::session:
      return {"session", Row::session};
    case Kind::audio:
      return {"audio", Row::client, "bytes"};
    case Kind::finalize:
      return {"finalize", Row::client};
    case Kind::reset:
      return {"reset", Row::client};
    case Kind::finish:
      return {"end of audio", Row::client};
    case Kind::waiting:
      return {"waiting for a place", Row::recognition};
    case Kind::moving:
      return {"moving to another owner", Row::recognition};
    case Kind::chunk:
      return {"chunk", Row::recognition, "lanes"};
    case Kind::queue:
      return {"queue", Row::recognition};
    case Kind::tick:
      return {"tick", Row::recognition};
    case Kind::features:
      return {"features", Row::recognition};
    case Kind::forward:
      return {"forward", Row::recognition};
    case Kind::decode:
      return {"decode", Row::recognition};
    case Kind::rescore:
      return {"rescore", Row::recognition};
    case Kind::emit:
      return {"emit", Row::recognition};
    case Kind::results:
      return {"results", Row::results};
    case Kind::partial:
      return {"partial", Row::results, "segment"};
    case Kind::final:
      return {"final", Row::results, "segment"};
    case Kind::voice:
      return {"voice event", Row::results};
    case Kind::error:
      return {"error", Row::results};
  }
  return {};
}

/// What the format calls a thread: one for the session, and one for each row of a track.
int thread_of(int track, Row row) {
  return row == Row::session ? 0 : track * rows_of_a_track + static_cast<int>(row);
}

std::string thread_name(int track, Row row) {
  constexpr const char* names[] = {"session", "client", "recognition", "results"};
  const char* const name = names[static_cast<size_t>(row)];
  return row == Row::session ? name : fmt::format("track {}: {}", track, name);
}

void write_thread(JsonWriter& json, int thread, const std::string& name) {
  json.begin_object().key("ph").string("M").key("pid").integer(1).key("tid").integer(thread);
  json.key("name").string("thread_name").key("args").begin_object().key("name").string(name).end_object();
  json.end_object();
}

}  // namespace

SessionTrace::SessionTrace(std::string session, std::string dialect, Time began,
                           std::chrono::system_clock::time_point date)
    : session_(std::move(session)), dialect_(std::move(dialect)), began_(began), date_(date) {}

int64_t SessionTrace::microseconds(Time time) const {
  return duration_cast<std::chrono::microseconds>(time - began_).count();
}

bool SessionTrace::add(const Event& event) {
  if (events_.size() == max_events) {
    ++dropped_;
    return false;
  }
  events_.push_back(event);
  return true;
}

void SessionTrace::span(Kind kind, int track, Time begin, Time end, int64_t value) {
  const int64_t from = microseconds(begin);
  const int64_t length = std::clamp<int64_t>(microseconds(end) - from, 0, INT32_MAX);
  add({from, static_cast<int32_t>(length), track, value, kind});
}

void SessionTrace::instant(Kind kind, int track, Time when, int64_t value) {
  add({microseconds(when), -1, track, value, kind});
}

void SessionTrace::audio(int track, Time arrival, size_t bytes) {
  const int64_t at = microseconds(arrival);
  const auto size = static_cast<int64_t>(bytes);
  if (const auto last = last_audio_.find(track); last != last_audio_.end()) {
    Event& event = events_[last->second];
    if (at - event.begin_us < duration_cast<std::chrono::microseconds>(audio_span).count()) {
      event.duration_us = std::max(event.duration_us, static_cast<int32_t>(at - event.begin_us));
      event.value += size;
      return;
    }
  }
  if (add({at, 0, track, size, Kind::audio})) last_audio_[track] = events_.size() - 1;
}

/// Kept however many there were.
void SessionTrace::end(Time when) {
  events_.push_back(
      {0, static_cast<int32_t>(std::min<int64_t>(microseconds(when), INT32_MAX)), 0, 0, Kind::session});
}

std::string SessionTrace::json() const {
  std::vector<Event> events = events_;
  // What contains others comes before them.
  std::ranges::stable_sort(events, {}, [](const Event& event) {
    return std::tuple(event.begin_us, -int64_t{event.duration_us}, event.kind);
  });
  JsonWriter json;
  json.begin_object().key("displayTimeUnit").string("ms").key("otherData").begin_object();
  json.key("session").string(session_).key("dialect").string(dialect_);
  json.key("began").string(
      fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::floor<std::chrono::seconds>(date_))));
  json.key("dropped_events").integer(dropped_).end_object().key("traceEvents").begin_array();
  std::set<int> threads;
  for (const Event& event : events) {
    const Row row = description(event.kind).row;
    const int thread = thread_of(event.track, row);
    if (threads.insert(thread).second) write_thread(json, thread, thread_name(event.track, row));
  }
  for (const Event& event : events) {
    const Description what = description(event.kind);
    json.begin_object().key("name").string(what.name).key("pid").integer(1);
    json.key("tid").integer(thread_of(event.track, what.row)).key("ts").integer(event.begin_us);
    if (event.duration_us >= 0) {
      json.key("ph").string("X").key("dur").integer(event.duration_us);
    } else {
      json.key("ph").string("i").key("s").string("t");
    }
    if (what.value != nullptr) {
      json.key("args").begin_object().key(what.value).integer(event.value).end_object();
    }
    json.end_object();
  }
  json.end_array().end_object();
  return std::move(json).take();
}

void TrackTrace::note_place(bool is_move) {
  const Clock::time_point now = Clock::now();
  recognized_until_ = now;
  if (trace_ != nullptr) trace_->span(is_move ? Kind::moving : Kind::waiting, track_, waits_since_, now);
}

void TrackTrace::note_tick(const TracedTick& traced) {
  if (trace_ == nullptr || !traced.tick) return;
  const TickTimeline& tick = *traced.tick;
  const bool has_chunk = traced.ready != Clock::time_point{};
  if (has_chunk) {
    const auto begin = std::min(tick.begin, std::max(traced.ready, recognized_until_));
    trace_->span(Kind::chunk, track_, begin, traced.sent, tick.lanes);
    trace_->span(Kind::queue, track_, begin, tick.begin);
  }
  trace_->span(Kind::tick, track_, tick.begin, traced.sent);
  Clock::time_point at = tick.begin;
  const auto stage = [&](Kind kind, Clock::duration length) {
    const auto end = std::min(at + length, tick.recognized);
    if (length > Clock::duration::zero()) trace_->span(kind, track_, at, end);
    at = end;
  };
  stage(Kind::features, tick.features);
  stage(Kind::forward, tick.forward);
  stage(Kind::decode, tick.decode);
  stage(Kind::rescore, tick.rescore);
  trace_->span(Kind::emit, track_, tick.recognized, traced.sent);
  recognized_until_ = traced.sent;
}

void TrackTrace::note_told(const TracedTick& traced) {
  if (trace_ == nullptr || !traced.tick) return;
  const Clock::time_point now = Clock::now();
  trace_->span(Kind::results, track_, std::max(traced.sent, told_until_), now);
  told_until_ = now;
}

}  // namespace tutti
