#include "cluster/wire.hpp"

#include <fmt/format.h>

#include <concepts>
#include <type_traits>
#include <utility>

#include "cluster/byte_reader.hpp"
#include "cluster/byte_writer.hpp"
#include "cluster/snapshot_codec.hpp"

namespace tutti::wire {
namespace {

constexpr size_t least_word_bytes = 16;
constexpr size_t least_update_bytes = 82;
constexpr size_t least_owner_bytes = 76;
constexpr size_t owner_state_bytes = 9;

// The fields of each structure, in the order they are sent, for a writer, to which it is constant, and for a
// reader.

template <class T, class U>
concept Either = std::same_as<std::remove_const_t<T>, U>;

template <class IO>
void fields(IO& io, Either<Word> auto& word) {
  io.text("word.text", word.text);
  io.number("word.first_frame", word.first_frame);
  io.number("word.last_frame", word.last_frame);
  io.number("word.confidence", word.confidence);
}

class FrameWriter : public ByteWriter {
 public:
  using ByteWriter::ByteWriter;

  void snapshot(const std::shared_ptr<const StreamSnapshot>& snapshot) { write_snapshot(*this, *snapshot); }
  void optional_snapshot(const std::shared_ptr<const StreamSnapshot>& there) {
    flag("snapshot", there != nullptr);
    if (there) snapshot(there);
  }
  void words(const Update& update) {
    list("words", std::span(update.words).first(update.word_count), least_word_bytes,
         [this](const Word& word) { fields(*this, word); });
  }
};

class FrameReader : public ByteReader {
 public:
  FrameReader(std::span<const std::byte> bytes, Clock::time_point now,
              const std::shared_ptr<const ConformerCtc>& model)
      : ByteReader(bytes, now), model_(model) {}

  void snapshot(std::shared_ptr<const StreamSnapshot>& snapshot) {
    auto read = std::make_shared<StreamSnapshot>();
    read_snapshot(*this, model_, *read);
    snapshot = std::move(read);
  }
  void optional_snapshot(std::shared_ptr<const StreamSnapshot>& there) {
    bool is_there = false;
    flag("snapshot", is_there);
    if (is_there) snapshot(there);
  }
  void words(Update& update) {
    list("words", update.words, least_word_bytes, [this](Word& word) { fields(*this, word); });
    update.word_count = update.words.size();
  }

 private:
  const std::shared_ptr<const ConformerCtc>& model_;
};

template <class IO>
void fields(IO& io, Either<RecognizerIdentity> auto& identity) {
  for (auto& byte : identity.model.digest) io.number("identity.model", byte);
  io.text("identity.settings", identity.settings);
}

template <class IO>
void fields(IO& io, Either<OwnerDescription> auto& owner) {
  io.number("owner", owner.owner);
  fields(io, owner.identity);
  auto& info = owner.info;
  io.text("info.model", info.model);
  io.number("info.sample_rate", info.sample_rate, 1);
  io.number("info.chunk_ms", info.chunk_ms, 1);
  io.number("info.samples_per_frame", info.samples_per_frame, 1);
  io.number("info.window_samples", info.window_samples, 0);
  io.number("info.overlap_samples", info.overlap_samples, 0);
  io.number("info.max_streams", info.max_streams, 0);
  io.number("info.snapshot_samples", info.snapshot_samples, 0);
  io.number("info.max_buffered_ms", info.max_buffered_ms, 0);
}

template <class IO>
void fields(IO& io, Either<OwnerState> auto& state) {
  io.number("owner", state.owner);
  io.flag("overloaded", state.overloaded);
  io.number("free", state.free, 0);
}

template <class IO>
void fields(IO& io, Either<StreamOptions> auto& options) {
  io.choice("stream_class", options.stream_class, StreamClass::background);
  io.flag("interim", options.interim);
  io.flag("words", options.words);
  io.flag("voice_events", options.voice_events);
  io.number("endpoint.silence_after_speech_ms", options.endpoint.silence_after_speech_ms, 0);
  io.number("endpoint.long_silence_ms", options.endpoint.long_silence_ms, 0);
  io.number("endpoint.max_segment_ms", options.endpoint.max_segment_ms, 0);
  io.number("tag", options.tag);
}

template <class IO>
void fields(IO& io, Either<Update> auto& update) {
  io.choice("kind", update.kind, Update::Kind::consumed);
  io.number("key.slot", update.key.slot);
  io.number("key.generation", update.key.generation);
  io.number("segment", update.segment, 0);
  io.text("text", update.text);
  io.number("start_sample", update.start_sample);
  io.number("end_sample", update.end_sample);
  io.number("confidence", update.confidence);
  io.choice("reason", update.reason, FinalReason::length);
  io.words(update);
  io.number("segment_sample", update.segment_sample);
  io.number("event", update.event, int64_t{0});
  io.number("consumed_samples", update.consumed_samples, int64_t{0});
  io.number("audio_samples", update.audio_samples, int64_t{0});
  io.moment("ready_at", update.ready_at);
}

template <class IO>
void fields(IO& io, Either<Error> auto& error) {
  io.text("code", error.code);
  io.text("message", error.message);
}

template <class IO>
void fields(IO& io, Either<Join> auto& join) {
  io.number("protocol", join.protocol);
  if (join.protocol != protocol_version) return;
  io.text("version", join.version);
  io.text("gateway", join.gateway);
  io.optional("identity", join.identity, [&](auto& identity) { fields(io, identity); });
}

template <class IO>
void fields(IO& io, Either<Joined> auto& joined) {
  io.number("protocol", joined.protocol);
  if (joined.protocol != protocol_version) return;
  io.text("version", joined.version);
  io.text("engine", joined.engine);
  io.text("device", joined.device);
  io.list("owners", joined.owners, least_owner_bytes, [&](auto& owner) { fields(io, owner); });
}

template <class IO>
void fields(IO& io, Either<Refused> auto& refused) {
  io.number("protocol", refused.protocol);
  io.text("reason", refused.reason);
}

template <class IO>
void fields(IO& io, Either<Admit> auto& admit) {
  io.number("stream", admit.stream);
  io.number("owner", admit.owner);
  fields(io, admit.options);
}

template <class IO>
void fields(IO& io, Either<Admitted> auto& admitted) {
  io.number("stream", admitted.stream);
  io.optional("refusal", admitted.refusal, [&](auto& error) { fields(io, error); });
}

template <class IO>
void fields(IO& io, Either<Restore> auto& restore) {
  io.number("stream", restore.stream);
  io.snapshot(restore.snapshot);
}

template <class IO>
void fields(IO& io, Either<Feed> auto& feed) {
  io.number("stream", feed.stream);
  io.list("samples", feed.samples);
  io.moment("arrival", feed.arrival);
}

template <class IO>
void fields(IO& io, Either<Finalize> auto& finalize) {
  io.number("stream", finalize.stream);
  io.moment("arrival", finalize.arrival);
}

template <class IO>
void fields(IO& io, Either<Finish> auto& finish) {
  io.number("stream", finish.stream);
  io.moment("arrival", finish.arrival);
}

template <class IO>
void fields(IO& io, Either<Reset> auto& reset) {
  io.number("stream", reset.stream);
}

template <class IO>
void fields(IO& io, Either<Release> auto& release) {
  io.number("stream", release.stream);
}

template <class IO>
void fields(IO& io, Either<Updates> auto& updates) {
  io.number("stream", updates.stream);
  io.list("updates", updates.updates, least_update_bytes, [&](auto& update) { fields(io, update); });
  io.optional_snapshot(updates.snapshot);
}

template <class IO>
void fields(IO& io, Either<OwnerStarted> auto& started) {
  fields(io, started.owner);
}

template <class IO>
void fields(IO& io, Either<OwnerLost> auto& lost) {
  io.number("owner", lost.owner);
  io.text("reason", lost.reason);
}

template <class IO>
void fields(IO& io, Either<Ping> auto& ping) {
  io.number("number", ping.number);
}

template <class IO>
void fields(IO& io, Either<Pong> auto& pong) {
  io.number("number", pong.number);
  io.list("owners", pong.owners, owner_state_bytes, [&](auto& state) { fields(io, state); });
}

/// Names of the alternatives of Frame, for messages.
constexpr const char* names[] = {"Join",         "Joined",    "Refused", "Admit", "Admitted", "Restore",
                                 "Feed",         "Finalize",  "Finish",  "Reset", "Release",  "Updates",
                                 "OwnerStarted", "OwnerLost", "Ping",    "Pong"};
static_assert(std::size(names) == std::variant_size_v<Frame>);

/// The alternative with the number, or false when there is none.
template <size_t... I>
bool emplace(Frame& frame, size_t index, std::index_sequence<I...> /*all*/) {
  return ((I == index && (frame.emplace<I>(), true)) || ...);
}

}  // namespace

std::vector<std::byte> encode(const Frame& frame, Clock::time_point now) {
  FrameWriter out(now);
  out.number("frame", static_cast<uint8_t>(frame.index()));
  std::visit([&](const auto& each) { fields(out, each); }, frame);
  return out.take();
}

Result<Frame> decode(std::span<const std::byte> bytes, Clock::time_point now,
                     const std::shared_ptr<const ConformerCtc>& model) {
  if (bytes.size() > max_frame_bytes) {
    return fail("bad_frame",
                fmt::format("a frame of {} bytes; {} at most are accepted", bytes.size(), max_frame_bytes));
  }
  FrameReader in(bytes, now, model);
  uint8_t index = 0;
  in.number("frame", index);
  Frame frame;
  if (!emplace(frame, index, std::make_index_sequence<std::variant_size_v<Frame>>())) {
    return fail("bad_frame", fmt::format("a frame of kind {}; there are those from 0 to {}", index,
                                         std::variant_size_v<Frame> - 1));
  }
  const bool is_foreign = std::visit(
      [&](auto& each) {
        fields(in, each);
        if constexpr (requires { each.protocol; }) return each.protocol != protocol_version;
        return false;
      },
      frame);
  if (!is_foreign) in.finish();
  if (!in.fault().empty()) return fail("bad_frame", fmt::format("{}: {}", names[index], in.fault()));
  return frame;
}

}  // namespace tutti::wire
