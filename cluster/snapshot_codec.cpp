#include "cluster/snapshot_codec.hpp"

namespace tutti::wire {
namespace {

// The fields of each structure, in the order they are sent, for a writer and for a reader.

constexpr size_t token_bytes = 16;

template <class IO, class Token>
void token_fields(IO& io, Token& token) {
  io.number("token.id", token.id, 0);
  io.number("token.first_frame", token.first_frame);
  io.number("token.last_frame", token.last_frame);
  io.number("token.log_prob", token.log_prob);
}

template <class IO, class State>
void voice_fields(IO& io, State& voice) {
  io.number("voice.frames", voice.frames, int64_t{0});
  io.number("voice.last_voiced", voice.last_voiced, int64_t{-1});
  io.number("voice.last_token", voice.last_token);
  io.number("voice.loud_since", voice.loud_since, int64_t{0});
  io.flag("voice.loud", voice.loud);
  io.flag("voice.speaking", voice.speaking);
  io.flag("voice.has_floor", voice.has_floor);
  io.number("voice.floor", voice.floor);
}

/// All but the model and the voice, which is read through its state.
template <class IO, class Past>
void past_fields(IO& io, Past& past) {
  io.number("history.committed", past.history.committed, int64_t{0});
  io.number("history.cached", past.history.cached, 0);
  io.number("history.begin", past.history.begin, 0);
  io.list("keys_values", past.keys_values);
  io.list("convolution", past.convolution);
  io.list("features", past.features);
  io.list("decoder", past.decoder);
  io.list("partial", past.partial, token_bytes, [&](auto& token) { token_fields(io, token); });
  io.list("rescorable_frames", past.rescorable_frames);
  io.number("voice_sample", past.voice_sample, int64_t{0});
  io.number("segment_sample", past.segment_sample, int64_t{0});
  io.number("position", past.position, 0);
}

template <class IO, class Snapshot>
void stream_fields(IO& io, Snapshot& snapshot) {
  io.number("sample", snapshot.sample, int64_t{0});
  io.number("commands", snapshot.commands, int64_t{0});
  io.number("events", snapshot.events, int64_t{0});
  io.number("segment", snapshot.segment, 0);
}

size_t expected_bytes(const StreamSnapshot::Past& past) {
  constexpr size_t all_else = 256;
  const size_t floats = past.keys_values.size() + past.convolution.size() + past.features.size() +
                        past.rescorable_frames.size();
  return floats * sizeof(float) + past.decoder.size() + past.partial.size() * token_bytes + all_else;
}

}  // namespace

void write_snapshot(ByteWriter& out, const StreamSnapshot& snapshot) {
  stream_fields(out, snapshot);
  out.optional("past", snapshot.past, [&](const StreamSnapshot::Past& past) {
    out.reserve(expected_bytes(past));
    past_fields(out, past);
    voice_fields(out, past.voice.state());
  });
}

void read_snapshot(ByteReader& in, const std::shared_ptr<const ConformerCtc>& model,
                   StreamSnapshot& snapshot) {
  stream_fields(in, snapshot);
  in.optional("past", snapshot.past, [&](StreamSnapshot::Past& past) {
    past_fields(in, past);
    VoiceActivity::State voice;
    voice_fields(in, voice);
    past.voice = VoiceActivity(voice);
    past.model = model;
  });
}

}  // namespace tutti::wire
