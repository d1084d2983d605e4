#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "decode/ctc_prefix_beam.hpp"
#include "decode/device_ctc.hpp"
#include "tests/gpu/conformance.hpp"

namespace tutti {
namespace {

constexpr int blank = 0;
constexpr int most_frames = 7;  // of a lane

/// The k best tokens of frames, best first. There are few tokens, so that prefixes meet again.
struct Frames {
  Frames(Random& random, int k_, int count_) : k(k_), count(count_) {
    for (int frame = 0; frame < count; ++frame) {
      const std::vector<int32_t> order = random.permutation(k + 3);
      ids.insert(ids.end(), order.begin(), order.begin() + k);
      float log_prob = 0;
      for (int i = 0; i < k; ++i) log_probs.push_back(log_prob -= 0.01F + std::abs(random.normal()));
    }
  }
  [[nodiscard]] CtcFrames all() const { return {count, k, ids.data(), log_probs.data()}; }

  int k, count;
  std::vector<int32_t> ids;
  std::vector<float> log_probs;
};

struct Searched {
  int beam;  // 0: greedily
  int max_tokens;
};
constexpr std::array searched{Searched{0, 200}, Searched{0, 3},   Searched{1, 200}, Searched{2, 200},
                              Searched{10, 3},  Searched{10, 60}, Searched{33, 20}};

class CtcSearchConformance : public OpsConformance {
 protected:
  static constexpr int streams = 5;

  static int k(const Searched& what) { return std::max(what.beam, 1); }

  static std::unique_ptr<const CtcDecoder> host_decoder(const Searched& what) {
    if (what.beam == 0) return std::make_unique<CtcGreedyDecoder>(blank, what.max_tokens);
    return std::make_unique<CtcPrefixBeamDecoder>(blank, what.beam, what.max_tokens);
  }

  std::unique_ptr<const CtcDecoder> device_decoder(const Searched& what) {
    auto search = ops().make_ctc_search({blank, what.beam, what.max_tokens}, streams);
    return std::make_unique<DeviceCtcDecoder>(host_decoder(what), std::move(search), ops(),
                                              streams * most_frames);
  }

  static std::vector<std::unique_ptr<CtcState>> states_of(const CtcDecoder& decoder) {
    std::vector<std::unique_ptr<CtcState>> states;
    for (int i = 0; i < streams; ++i) states.push_back(decoder.create_state());
    return states;
  }

  /// What the host reads of the rows.
  struct Read {
    std::vector<int32_t> ids;
    std::vector<float> log_probs;
  };

  /// All of a batch's lanes, each with its frames.
  Read decode(const CtcDecoder& decoder, std::span<CtcState* const> states, std::span<const Frames> frames) {
    std::vector<CtcLane> lanes;
    std::vector<float> ids;  // as bits
    std::vector<float> log_probs;
    for (size_t i = 0; i < states.size(); ++i) {
      const auto first = static_cast<int>(std::ssize(log_probs)) / frames[i].k;
      lanes.push_back({states[i], first, frames[i].count});
      for (const int32_t id : frames[i].ids) ids.push_back(std::bit_cast<float>(id));
      log_probs.insert(log_probs.end(), frames[i].log_probs.begin(), frames[i].log_probs.end());
    }
    const Shape shape{std::ssize(log_probs) / frames[0].k, frames[0].k};
    const Tensor device_ids = device(host_tensor(shape, ids));
    const Tensor device_log_probs = device(host_tensor(shape, log_probs));
    const TensorView bits{device_ids.view().data, DType::i32, shape};
    const CtcRows rows = decoder.begin_chunks(lanes, {bits, device_log_probs});
    Read read{{}, host(rows.log_probs)};
    for (const float id : host({rows.ids.data, DType::f32, rows.ids.shape}))
      read.ids.push_back(std::bit_cast<int32_t>(id));
    for (const CtcLane& lane : lanes) {
      decoder.decode_chunk(*lane.state, {.frames = lane.frames,
                                         .k = 1,
                                         .ids = read.ids.data() + lane.first_row,
                                         .log_probs = read.log_probs.data() + lane.first_row});
    }
    return read;
  }
  void decode(const CtcDecoder& decoder, CtcState& state, const Frames& frames) {
    CtcState* const states[]{&state};
    static_cast<void>(decode(decoder, states, std::span(&frames, 1)));
  }

  static std::vector<CtcToken> best(const CtcDecoder& decoder, const CtcState& state) {
    const std::span<const CtcToken> tokens = decoder.best(state);
    return {tokens.begin(), tokens.end()};
  }

  static void expect_same_nbest(const CtcDecoder& actual, const CtcState& of_actual,
                                const CtcDecoder& expected, const CtcState& of_expected) {
    std::vector<CtcHypothesis> a, e;
    ASSERT_EQ(actual.write_nbest(of_actual, a), expected.write_nbest(of_expected, e));
    for (size_t i = 0; i < e.size(); ++i) {
      EXPECT_EQ(a[i].tokens, e[i].tokens) << i;
      EXPECT_NEAR(a[i].score, e[i].score, 1e-9) << i;
    }
  }
};

/// Those that search themselves. On a CPU the host does.
std::vector<Backend> searching_backends() {
  std::vector<Backend> all = serving_backends({"search"});
  std::erase_if(all, [](const Backend& backend) { return backend.operations.empty(); });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Backends, CtcSearchConformance, testing::ValuesIn(searching_backends()),
                         backend_name);

TEST_P(CtcSearchConformance, FindsWhatTheHostFindsOfStreamsThatComeAndGoAndShareBatches) {
  Random random(std::random_device{}());
  SCOPED_TRACE(random.trace());
  for (const Searched& what : searched) {
    SCOPED_TRACE(what.beam);
    const auto host = host_decoder(what);
    const auto device = device_decoder(what);
    const auto host_states = states_of(*host);
    const auto device_states = states_of(*device);
    for (int batch = 0; batch < 8; ++batch) {
      std::vector<Frames> frames;
      std::vector<CtcState*> states;
      std::vector<size_t> chosen;
      for (const int32_t i : random.permutation(streams)) {
        if (!states.empty() && random.between(0, 2) == 0) continue;
        chosen.push_back(static_cast<size_t>(i));
        states.push_back(device_states[chosen.back()].get());
        frames.emplace_back(random, k(what), random.between(1, most_frames));
        if (random.between(0, 3) != 0) continue;
        host->reset_state(*host_states[chosen.back()]);
        device->reset_state(*device_states[chosen.back()]);
        EXPECT_TRUE(device->best(*device_states[chosen.back()]).empty());
      }
      decode(*device, states, frames);
      for (size_t lane = 0; lane < chosen.size(); ++lane)
        host->decode_chunk(*host_states[chosen[lane]], frames[lane].all());
      for (size_t i = 0; i < streams; ++i) {
        EXPECT_EQ(best(*device, *device_states[i]), best(*host, *host_states[i]));
        EXPECT_EQ(device->frames(*device_states[i]), host->frames(*host_states[i]));
      }
    }
    for (size_t i = 0; i < streams; ++i)
      expect_same_nbest(*device, *device_states[i], *host, *host_states[i]);
  }
}

TEST_P(CtcSearchConformance, GivesAStreamTheSameBitsAloneAndInACrowd) {
  Random random(3);
  for (const Searched& what : searched) {
    const auto decoder = device_decoder(what);
    const auto states = states_of(*decoder);
    for (int batch = 0; batch < 3; ++batch) {
      std::vector<Frames> frames;
      std::vector<CtcState*> crowd;
      for (size_t i = 0; i + 1 < streams; ++i) {
        frames.emplace_back(random, k(what), 4);
        crowd.push_back(states[i].get());
      }
      decode(*decoder, crowd, frames);
      decode(*decoder, *states[streams - 1], frames[2]);
    }
    EXPECT_EQ(decoder->save_state(*states[2]), decoder->save_state(*states[streams - 1])) << what.beam;
  }
}

TEST_P(CtcSearchConformance, GoesOnWithAStateOfTheHostAndTheHostWithItsOwn) {
  Random random(4);
  for (const Searched& what : searched) {
    SCOPED_TRACE(what.beam);
    const auto host = host_decoder(what);
    const auto device = device_decoder(what);
    const auto on_host = host->create_state();
    const auto on_device = device->create_state();
    EXPECT_EQ(device->save_state(*on_device), host->save_state(*on_host)) << "fresh";
    const auto go_on = [&] {
      const Frames frames(random, k(what), most_frames);
      decode(*device, *on_device, frames);
      host->decode_chunk(*on_host, frames.all());
    };
    go_on();
    device->load_state(*on_device, host->save_state(*on_host));
    EXPECT_EQ(best(*device, *on_device), best(*host, *on_host));
    go_on();
    host->load_state(*on_host, device->save_state(*on_device));
    go_on();
    EXPECT_EQ(best(*device, *on_device), best(*host, *on_host));
    EXPECT_EQ(device->frames(*on_device), 3 * most_frames);
    expect_same_nbest(*device, *on_device, *host, *on_host);
  }
}

TEST_P(CtcSearchConformance, SaysOfARowThatItIsNotFiniteAndHarmsNoOtherLane) {
  Random random(5);
  const Searched what{4, 60};
  const auto host = host_decoder(what);
  const auto device = device_decoder(what);
  const auto states = states_of(*device);
  constexpr int bad_row = 2;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<Frames> frames{{random, k(what), 5}, {random, k(what), 5}};
    frames[0].log_probs[bad_row * 4 + 3] = bad;
    CtcState* const both[]{states[0].get(), states[1].get()};
    for (CtcState* const state : both) device->reset_state(*state);
    const Read read = decode(*device, both, frames);
    for (size_t row = 0; row < 10; ++row) {
      const Frames& of = frames[row / 5];
      EXPECT_EQ(read.ids[row], of.ids[row % 5 * 4]);
      EXPECT_EQ(std::isnan(read.log_probs[row]), row == bad_row);
      if (row == bad_row) continue;
      EXPECT_EQ(read.log_probs[row], of.log_probs[row % 5 * 4]);
    }
    const auto expected = host->create_state();
    host->decode_chunk(*expected, frames[1].all());
    EXPECT_EQ(best(*device, *states[1]), best(*host, *expected));
  }
}

}  // namespace
}  // namespace tutti
