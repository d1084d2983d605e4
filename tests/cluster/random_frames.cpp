#include "tests/cluster/random_frames.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace tutti {
namespace {

using namespace wire;

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters)
bool same(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) { return same(x, y); });
}

bool same(const CtcToken& a, const CtcToken& b) {
  return a.id == b.id && a.first_frame == b.first_frame && a.last_frame == b.last_frame &&
         same(a.log_prob, b.log_prob);
}

bool same(const VoiceActivity::State& a, const VoiceActivity::State& b) {
  return a.frames == b.frames && a.last_voiced == b.last_voiced && a.last_token == b.last_token &&
         a.loud_since == b.loud_since && a.loud == b.loud && a.speaking == b.speaking &&
         a.has_floor == b.has_floor && same(a.floor, b.floor);
}

bool same(const StreamSnapshot::Past& a, const StreamSnapshot::Past& b) {
  return a.history.committed == b.history.committed && a.history.cached == b.history.cached &&
         a.history.begin == b.history.begin && same(a.keys_values, b.keys_values) &&
         same(a.convolution, b.convolution) && same(a.features, b.features) && a.decoder == b.decoder &&
         std::ranges::equal(a.partial, b.partial, [](auto& x, auto& y) { return same(x, y); }) &&
         same(a.rescorable_frames, b.rescorable_frames) && same(a.voice.state(), b.voice.state()) &&
         a.voice_sample == b.voice_sample && a.segment_sample == b.segment_sample && a.position == b.position;
}

bool same(const std::shared_ptr<const StreamSnapshot>& a, const std::shared_ptr<const StreamSnapshot>& b) {
  return (!a && !b) || (a && b && tutti::same(*a, *b));
}

bool same(const Word& a, const Word& b) {
  return a.text == b.text && a.first_frame == b.first_frame && a.last_frame == b.last_frame &&
         same(a.confidence, b.confidence);
}

bool same(const Update& a, const Update& b) {
  return a.kind == b.kind && a.key == b.key && a.segment == b.segment && a.text == b.text &&
         a.start_sample == b.start_sample && a.end_sample == b.end_sample &&
         same(a.confidence, b.confidence) && a.reason == b.reason && a.word_count == b.word_count &&
         std::ranges::equal(std::span(a.words).first(a.word_count), std::span(b.words).first(b.word_count),
                            [](auto& x, auto& y) { return same(x, y); }) &&
         a.segment_sample == b.segment_sample && a.event == b.event &&
         a.consumed_samples == b.consumed_samples && a.audio_samples == b.audio_samples &&
         a.ready_at == b.ready_at;
}

bool same(const StreamOptions& a, const StreamOptions& b) {
  return a.stream_class == b.stream_class && a.interim == b.interim && a.words == b.words &&
         a.voice_events == b.voice_events &&
         a.endpoint.silence_after_speech_ms == b.endpoint.silence_after_speech_ms &&
         a.endpoint.long_silence_ms == b.endpoint.long_silence_ms &&
         a.endpoint.max_segment_ms == b.endpoint.max_segment_ms && a.tag == b.tag;
}

bool same(const OwnerDescription& a, const OwnerDescription& b) {
  return a.owner == b.owner && a.identity == b.identity && a.info == b.info;
}

bool same(const Join& a, const Join& b) {
  return a.protocol == b.protocol && a.version == b.version && a.gateway == b.gateway &&
         a.identity == b.identity;
}
bool same(const Joined& a, const Joined& b) {
  return a.protocol == b.protocol && a.version == b.version && a.engine == b.engine && a.device == b.device &&
         std::ranges::equal(a.owners, b.owners, [](auto& x, auto& y) { return same(x, y); });
}
bool same(const Refused& a, const Refused& b) { return a.protocol == b.protocol && a.reason == b.reason; }
bool same(const Admit& a, const Admit& b) {
  return a.stream == b.stream && a.owner == b.owner && same(a.options, b.options);
}
bool same(const Admitted& a, const Admitted& b) {
  return a.stream == b.stream && a.refusal.has_value() == b.refusal.has_value() &&
         (!a.refusal || (a.refusal->code == b.refusal->code && a.refusal->message == b.refusal->message));
}
bool same(const Restore& a, const Restore& b) { return a.stream == b.stream && same(a.snapshot, b.snapshot); }
bool same(const Feed& a, const Feed& b) {
  return a.stream == b.stream && same(a.samples, b.samples) && a.arrival == b.arrival;
}
bool same(const Finalize& a, const Finalize& b) { return a.stream == b.stream && a.arrival == b.arrival; }
bool same(const Finish& a, const Finish& b) { return a.stream == b.stream && a.arrival == b.arrival; }
bool same(const Reset& a, const Reset& b) { return a.stream == b.stream; }
bool same(const Release& a, const Release& b) { return a.stream == b.stream; }
bool same(const Updates& a, const Updates& b) {
  return a.stream == b.stream &&
         std::ranges::equal(a.updates, b.updates, [](auto& x, auto& y) { return same(x, y); }) &&
         same(a.snapshot, b.snapshot);
}
bool same(const OwnerStarted& a, const OwnerStarted& b) { return same(a.owner, b.owner); }
bool same(const OwnerLost& a, const OwnerLost& b) { return a.owner == b.owner && a.reason == b.reason; }
bool same(const Ping& a, const Ping& b) { return a.number == b.number; }
bool same(const Pong& a, const Pong& b) {
  return a.number == b.number && std::ranges::equal(a.owners, b.owners, [](auto& x, auto& y) {
           return x.owner == y.owner && x.overloaded == y.overloaded && x.free == y.free;
         });
}

}  // namespace

bool same(const StreamSnapshot& a, const StreamSnapshot& b) {
  return a.sample == b.sample && a.commands == b.commands && a.events == b.events && a.segment == b.segment &&
         a.past.has_value() == b.past.has_value() && (!a.past || same(*a.past, *b.past));
}

bool same(const wire::Frame& a, const wire::Frame& b) {
  return std::visit(
      [](const auto& x, const auto& y) {
        if constexpr (std::is_same_v<decltype(x), decltype(y)>) return same(x, y);
        return false;
      },
      a, b);
}

/// Often one of the ends of what is accepted.
template <class T>
T RandomFrames::number(T least) {
  constexpr T most = std::numeric_limits<T>::max();
  switch (random_() % 8) {
    case 0:
      return least;
    case 1:
      return most;
    default:
      return std::uniform_int_distribution<T>(least, most)(random_);
  }
}

/// Any bits: numbers, infinities, those that are no numbers.
float RandomFrames::real() { return std::bit_cast<float>(static_cast<uint32_t>(random_())); }

std::string RandomFrames::text() {
  std::string text(random_() % 24, '\0');
  for (char& c : text) c = static_cast<char>(random_());
  return text;
}

std::vector<float> RandomFrames::reals(size_t longest) {
  std::vector<float> values(random_() % (longest + 1));
  for (float& value : values) value = real();
  return values;
}

Clock::time_point RandomFrames::moment() {
  if (random_() % 8 == 0) return {};
  return now_ +
         std::chrono::nanoseconds(std::uniform_int_distribution<int64_t>(-1'000'000'000'000, 1000)(random_));
}

RecognizerIdentity RandomFrames::identity() {
  RecognizerIdentity identity{.model = {}, .settings = text()};
  for (uint8_t& byte : identity.model.digest) byte = static_cast<uint8_t>(random_());
  return identity;
}

OwnerDescription RandomFrames::owner() {
  return {.owner = number<uint32_t>(),
          .identity = identity(),
          .info = {.model = text(),
                   .sample_rate = number(1),
                   .chunk_ms = number(1),
                   .samples_per_frame = number(1),
                   .window_samples = number(0),
                   .overlap_samples = number(0),
                   .max_streams = number(0),
                   .snapshot_samples = number(0),
                   .max_buffered_ms = number(0)}};
}

Update RandomFrames::update() {
  Update update{.kind = static_cast<Update::Kind>(random_() % 7),
                .key = {.slot = number<int32_t>(), .generation = number<uint32_t>()},
                .segment = number(0),
                .text = text(),
                .start_sample = number<int64_t>(),
                .end_sample = number<int64_t>(),
                .confidence = real(),
                .reason = static_cast<FinalReason>(random_() % 4),
                .words = {},
                .word_count = 0,
                .segment_sample = number<int64_t>(),
                .event = number<int64_t>(0),
                .consumed_samples = number<int64_t>(0),
                .audio_samples = number<int64_t>(0),
                .ready_at = moment()};
  update.words.resize(random_() % 4);
  for (Word& word : update.words) {
    word = {.text = text(),
            .first_frame = number<int32_t>(),
            .last_frame = number<int32_t>(),
            .confidence = real()};
  }
  // The rest of them is what the vector had before.
  update.word_count = random_() % (update.words.size() + 1);
  return update;
}

StreamOptions RandomFrames::options() {
  return {.stream_class = coin() ? StreamClass::live : StreamClass::background,
          .interim = coin(),
          .words = coin(),
          .voice_events = coin(),
          .endpoint = {.silence_after_speech_ms = number(0),
                       .long_silence_ms = number(0),
                       .max_segment_ms = number(0)},
          .tag = number<int32_t>()};
}

StreamSnapshot RandomFrames::snapshot() {
  StreamSnapshot snapshot{.sample = number<int64_t>(0),
                          .commands = number<int64_t>(0),
                          .events = number<int64_t>(0),
                          .segment = number(0),
                          .past = {}};
  if (coin()) return snapshot;
  StreamSnapshot::Past& past = snapshot.past.emplace();
  past.history = {.committed = number<int64_t>(0), .cached = number(0), .begin = number(0)};
  past.keys_values = reals(40);
  past.convolution = reals(40);
  past.features = reals(40);
  past.decoder.resize(random_() % 40);
  for (std::byte& byte : past.decoder) byte = static_cast<std::byte>(random_());
  past.partial.resize(random_() % 4);
  for (CtcToken& token : past.partial) {
    token = {.id = number(0),
             .first_frame = number<int32_t>(),
             .last_frame = number<int32_t>(),
             .log_prob = real()};
  }
  past.rescorable_frames = reals(40);
  past.voice = VoiceActivity(VoiceActivity::State{.frames = number<int64_t>(0),
                                                  .last_voiced = number<int64_t>(-1),
                                                  .last_token = number<int64_t>(),
                                                  .loud_since = number<int64_t>(0),
                                                  .loud = coin(),
                                                  .speaking = coin(),
                                                  .has_floor = coin(),
                                                  .floor = real()});
  past.voice_sample = number<int64_t>(0);
  past.segment_sample = number<int64_t>(0);
  past.position = number(0);
  return snapshot;
}

Frame RandomFrames::frame(size_t index) {
  const auto stream = number<uint64_t>();
  const auto shared = [this] { return std::make_shared<const StreamSnapshot>(snapshot()); };
  switch (index) {
    case 0:
      return Join{.version = text(),
                  .gateway = text(),
                  .identity = coin() ? std::optional(identity()) : std::nullopt};
    case 1: {
      Joined joined{.version = text(), .engine = text(), .device = text(), .owners = {}};
      for (auto owners = random_() % 4; owners > 0; --owners) joined.owners.push_back(owner());
      return joined;
    }
    case 2:
      return Refused{.reason = text()};
    case 3:
      return Admit{.stream = stream, .owner = number<uint32_t>(), .options = options()};
    case 4:
      return Admitted{.stream = stream,
                      .refusal = coin() ? std::optional(Error{text(), text()}) : std::nullopt};
    case 5:
      return Restore{.stream = stream, .snapshot = shared()};
    case 6:
      return Feed{.stream = stream, .samples = reals(400), .arrival = moment()};
    case 7:
      return Finalize{.stream = stream, .arrival = moment()};
    case 8:
      return Finish{.stream = stream, .arrival = moment()};
    case 9:
      return Reset{stream};
    case 10:
      return Release{stream};
    case 11: {
      Updates updates{.stream = stream, .updates = {}, .snapshot = coin() ? shared() : nullptr};
      for (auto count = random_() % 4; count > 0; --count) updates.updates.push_back(update());
      return updates;
    }
    case 12:
      return OwnerStarted{owner()};
    case 13:
      return OwnerLost{.owner = number<uint32_t>(), .reason = text()};
    case 14:
      return Ping{stream};
    default: {
      Pong pong{.number = stream, .owners = {}};
      for (auto owners = random_() % 4; owners > 0; --owners) {
        pong.owners.push_back({.owner = number<uint32_t>(), .overloaded = coin(), .free = number(0)});
      }
      return pong;
    }
  }
}

}  // namespace tutti
