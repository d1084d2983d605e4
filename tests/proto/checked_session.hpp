#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "proto/dialect.hpp"

namespace tutti::proto {

/// What differs from dialect to dialect.
struct SessionRules {
  bool replies_are_json = true;  ///< else any text
  bool fills_gaps = false;       ///< with silence, so that there may be more audio than was sent
  bool has_frames = false;       ///< many of which one binary message may hold
};

/// The rules of a dialect by its name.
[[nodiscard]] SessionRules rules_of(std::string_view dialect_name);

/// One session of a dialect that is not trusted, with a recognizer that does what it is asked. Throws
/// BrokenRule where the dialect breaks a rule of proto/dialect.hpp; what the dialect throws comes through.
/// Once the session is closed, calls are without effect.
class CheckedSession {
 public:
  CheckedSession(std::unique_ptr<Dialect> dialect, SessionRules rules);

  struct Track {
    bool is_framed = false;  ///< raw Opus packets
    int64_t audio = 0;       ///< bytes
    int64_t heard = 0;
    int finalizes = 0;  ///< asked for and not answered
    int segment = 0;
    bool ending = false;
    bool said_last = false;  ///< its final with reason `eof`; only Done comes after
  };

  void open();
  void text(std::string_view message);
  void binary(std::span<const std::byte> bytes, bool ends_message);
  void idle();
  /// The server ends the session.
  void fault(const Error& error);

  /// Has the track say this when it is its turn: a final with reason `finalize` or `eof` where one was asked
  /// for, Done when its audio was ended, anything while it is open.
  void say(int track, ServerEvent event);
  /// The track has heard so many bytes, or all that there are.
  void hear(int track, int64_t bytes);
  /// All tracks hear their audio and answer what they were asked.
  void catch_up();

  [[nodiscard]] bool closed() const { return closed_; }
  [[nodiscard]] const std::map<int, Track>& tracks() const { return tracks_; }

  /// Called with every action from now on.
  void watch(std::function<void(const Action& action)> watcher) { watcher_ = std::move(watcher); }

 private:
  template <class Call>
  void call(Call what);
  void obey(const Action& action);
  void check_reply(const std::string& text) const;
  [[nodiscard]] bool may_say(Track& track, const ServerEvent& event);
  void answer_finalize(int track);

  std::unique_ptr<Dialect> dialect_;
  SessionRules rules_;
  std::map<int, Track> tracks_;
  std::function<void(const Action& action)> watcher_;
  size_t calls_ = 0;
  size_t actions_ = 0;
  size_t sent_bytes_ = 0;
  size_t carried_bytes_ = 0;
  bool closed_ = false;
};

}  // namespace tutti::proto
