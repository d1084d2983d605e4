#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

/// Something a client may be allowed.
enum class Right : uint8_t {
  stream,   ///< to have speech recognized while it is spoken
  upload,   ///< to have files transcribed
  monitor,  ///< to read along with its own sessions
  metrics,  ///< to read the server's measurements
  admin,    ///< to drain the server and to have it read its files again
};

inline constexpr Right every_right[] = {Right::stream, Right::upload, Right::monitor, Right::metrics,
                                        Right::admin};

/// A set of rights.
class Rights {
 public:
  constexpr Rights() = default;
  template <class... Each>
  constexpr explicit Rights(Each... rights) : bits_(static_cast<uint8_t>((bit(rights) | ...))) {}

  constexpr void add(Right right) { bits_ = static_cast<uint8_t>(bits_ | bit(right)); }
  [[nodiscard]] constexpr bool has(Right right) const { return (bits_ & bit(right)) != 0; }
  constexpr bool operator==(const Rights&) const = default;

 private:
  static constexpr int bit(Right right) { return 1 << static_cast<int>(right); }

  uint8_t bits_ = 0;
};

[[nodiscard]] constexpr Rights all_rights() {
  Rights all;
  for (const Right right : every_right) all.add(right);
  return all;
}

/// What a client may take of a server. 0 is no limit.
struct ClientLimits {
  int max_streams = 0;  ///< at once; files being transcribed count
  int max_requests_per_s = 0;
  int max_audio_minutes_per_day = 0;  ///< of a day of UTC

  constexpr bool operator==(const ClientLimits&) const = default;
};

/// What a client may do, and how much of it. A key whose line says nothing of it may do everything but
/// administer, without a limit.
struct ClientTerms {
  Rights allowed{Right::stream, Right::upload, Right::monitor, Right::metrics};
  ClientLimits limits = {};

  constexpr bool operator==(const ClientTerms&) const = default;
};

/// "stream"
[[nodiscard]] std::string_view to_string(Right right);
/// Nothing when there is no such right.
[[nodiscard]] std::optional<Right> parse_right(std::string_view name);
/// "stream, upload"
[[nodiscard]] std::string to_string(Rights rights);

/// A limit by its name in files and tokens.
struct LimitField {
  std::string_view name;
  int ClientLimits::*value;
};
inline constexpr LimitField limit_fields[] = {
    {"max_streams", &ClientLimits::max_streams},
    {"max_requests_per_s", &ClientLimits::max_requests_per_s},
    {"max_audio_minutes_per_day", &ClientLimits::max_audio_minutes_per_day},
};
/// The most that one may be.
inline constexpr int largest_limit = 1'000'000;

}  // namespace tutti
