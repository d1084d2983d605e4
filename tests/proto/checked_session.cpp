#include "tests/proto/checked_session.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "config/utf8.hpp"
#include "tests/config/broken_rule.hpp"

namespace tutti::proto {
namespace {

// A call may do a few things to each track, and answer what earlier calls left open.
constexpr size_t max_actions_per_call = size_t{3} * max_tracks;

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::string_view before = text;
    const std::string_view character = take_utf8(text);
    if (!before.starts_with(character)) return false;
  }
  return true;
}

}  // namespace

SessionRules rules_of(std::string_view dialect_name) {
  return {.replies_are_json = dialect_name != "native" && dialect_name != "sherpa",
          .fills_gaps = dialect_name == "twilio",
          .has_frames = dialect_name == "audiosocket"};
}

CheckedSession::CheckedSession(std::unique_ptr<Dialect> dialect, SessionRules rules)
    : dialect_(std::move(dialect)), rules_(rules) {}

template <class Call>
void CheckedSession::call(Call what) {
  if (closed_) return;
  Actions actions;
  what(actions);
  for (const Action& action : actions) {
    obey(action);
    if (watcher_) watcher_(action);
  }
  ++calls_;
  actions_ += actions.size();
  require(actions_ <= calls_ * max_actions_per_call + (rules_.has_frames ? sent_bytes_ : 0),
          "the work that calls cause is bounded");
  require(rules_.fills_gaps || carried_bytes_ <= sent_bytes_, "there is no more audio than was sent");
}

void CheckedSession::open() {
  call([&](Actions& actions) { dialect_->on_open(actions); });
}

void CheckedSession::text(std::string_view message) {
  sent_bytes_ += message.size();
  call([&](Actions& actions) { dialect_->on_text(message, actions); });
}

void CheckedSession::binary(std::span<const std::byte> bytes, bool ends_message) {
  sent_bytes_ += bytes.size();
  call([&](Actions& actions) { dialect_->on_binary(bytes, ends_message, actions); });
}

void CheckedSession::idle() {
  if (!dialect_->idle_limit()) return;
  call([&](Actions& actions) { dialect_->on_idle(actions); });
}

void CheckedSession::fault(const Error& error) {
  tracks_.clear();
  call([&](Actions& actions) { dialect_->on_fault(error, actions); });
  closed_ = true;
}

bool CheckedSession::may_say(Track& track, const ServerEvent& event) {
  if (const auto* final = std::get_if<Final>(&event)) {
    if (track.said_last) return false;
    if (final->reason == "finalize") return track.finalizes > 0 && track.finalizes-- > 0;
    if (final->reason != "eof") return true;
    if (!track.ending || track.finalizes > 0) return false;
    return track.said_last = true;
  }
  if (std::holds_alternative<Done>(event)) return track.said_last;
  return !track.said_last || std::holds_alternative<ErrorEvent>(event);
}

void CheckedSession::say(int index, ServerEvent event) {
  const auto found = tracks_.find(index);
  if (found == tracks_.end() || !may_say(found->second, event)) return;
  if (auto* final = std::get_if<Final>(&event)) final->segment = found->second.segment++;
  if (std::holds_alternative<Done>(event) || std::holds_alternative<ErrorEvent>(event)) tracks_.erase(found);
  call([&](Actions& actions) { dialect_->on_event(index, event, actions); });
}

void CheckedSession::hear(int index, int64_t bytes) {
  const auto found = tracks_.find(index);
  if (found == tracks_.end()) return;
  const int64_t heard = std::min(bytes, found->second.audio);
  if (heard <= found->second.heard) return;
  found->second.heard = heard;
  call([&](Actions& actions) { dialect_->on_heard(index, heard, actions); });
}

void CheckedSession::catch_up() {
  // By index: what a track says may close others, and open new ones.
  std::vector<int> indices;
  for (const auto& [index, track] : tracks_) indices.push_back(index);
  for (const int index : indices) {
    if (!tracks_.contains(index)) continue;
    for (int i = tracks_.at(index).finalizes; i > 0; --i)
      say(index, Final{.text = {}, .words = {}, .reason = "finalize"});
    if (tracks_.contains(index)) hear(index, tracks_.at(index).audio);
    say(index, Final{.text = {}, .words = {}, .reason = "eof"});
    say(index, Done{});
  }
}

void CheckedSession::obey(const Action& action) {
  require(!closed_, "nothing follows a Close");
  if (const auto* opened = std::get_if<OpenTrack>(&action)) {
    require(!tracks_.contains(opened->track), "a track is opened once at a time");
    require(opened->request.format.channels >= 1 && opened->request.format.channels <= max_channels,
            "a track has 1 to 64 channels");
    tracks_[opened->track] = {.is_framed = opened->request.coding == AudioCoding::opus_packets};
    require(tracks_.size() <= static_cast<size_t>(max_tracks), "there are at most max_tracks tracks");
  } else if (const auto* audio = std::get_if<TrackAudio>(&action)) {
    const auto track = tracks_.find(audio->track);
    const bool is_framed = track != tracks_.end() && track->second.is_framed;
    carried_bytes_ += audio->bytes.size() - (is_framed ? 2 : 0);  // the length of a packet, before it
    if (track == tracks_.end() || track->second.ending) return;
    track->second.audio += static_cast<int64_t>(audio->bytes.size());
  } else if (const auto* end = std::get_if<EndTrack>(&action)) {
    const auto track = tracks_.find(end->track);
    if (track != tracks_.end()) track->second.ending = true;
  } else if (const auto* finalize = std::get_if<FinalizeTrack>(&action)) {
    const auto track = tracks_.find(finalize->track);
    if (track != tracks_.end() && !track->second.ending) ++track->second.finalizes;
  } else if (const auto* reply = std::get_if<Reply>(&action)) {
    check_reply(reply->text);
  } else if (const auto* announce = std::get_if<Announce>(&action)) {
    require(is_utf8(announce->name) && announce->name.size() <= 256, "a name is short and of UTF-8");
  } else if (std::holds_alternative<Close>(action)) {
    closed_ = true;
  }
}

void CheckedSession::check_reply(const std::string& text) const {
  require(!text.empty(), "a reply is not empty");
  require(is_utf8(text), "a reply is UTF-8");
  if (!rules_.replies_are_json) return;
  static simdjson::dom::parser parser;  // a new one each time costs more than all else here
  require(parser.parse(text).error() == simdjson::SUCCESS, fmt::format("a reply is JSON: {}", text));
}

}  // namespace tutti::proto
