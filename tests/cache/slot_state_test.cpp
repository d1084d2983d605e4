#include "cache/slot_state.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <numeric>
#include <vector>

#include "tests/cache/host_ops.hpp"
#include "tests/cache/throws.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace tutti {
namespace {

using testing::Each;

constexpr int slots = 4;

/// Three states with the slots at the front, in the middle and alone, one of which a reset keeps.
std::vector<StreamStateSpec> three_states() {
  return {{.name = "embed.tail", .shape = {3, 2}},
          {.name = "memory", .shape = {2, 5}, .slot_axis = 1},
          {.name = "prompt", .shape = {}, .persistent = true, .dtype = DType::i32}};
}

Tensor filled(const Shape& shape, float value) {
  return host_tensor(shape, std::vector<float>(static_cast<size_t>(shape.elements()), value));
}

class SlotStateCacheTest : public testing::Test {
 protected:
  [[nodiscard]] SlotStateView view(std::string_view name, int32_t slot) {
    slot_ = slot;
    return states_.lanes({&slot_, 1})[name];
  }
  [[nodiscard]] std::vector<float> read(std::string_view name, int32_t slot) {
    const SlotStateView state = view(name, slot);
    const Tensor out = filled(state.shape(), -1);
    state.gather(out);
    return {out.view().f32(), out.view().f32() + out.shape().elements()};
  }
  [[nodiscard]] int32_t prompt(int32_t slot) {
    const Tensor out = host_tensor(DType::i32, {1});
    view("prompt", slot).gather(out);
    return out.view().i32()[0];
  }
  void write(int32_t slot, float value) {
    for (const char* name : {"embed.tail", "memory"}) {
      const SlotStateView state = view(name, slot);
      state.scatter(filled(state.shape(), value));
    }
    states_.fill_slot("prompt", slot, value);
  }
  void expect_values(int32_t slot, float value, int32_t prompt_id) {
    EXPECT_THAT(read("embed.tail", slot), Each(value)) << "slot " << slot;
    EXPECT_THAT(read("memory", slot), Each(value)) << "slot " << slot;
    EXPECT_EQ(prompt(slot), prompt_id) << "slot " << slot;
  }

  HostOps ops_;
  SlotStateCache states_{three_states(), slots, 1, ops_};
  int32_t slot_ = 0;
};

TEST_F(SlotStateCacheTest, KeepsOneTensorAStateWithTheSlotsOnTheDeclaredAxis) {
  EXPECT_EQ(states_.buffer(0).shape, (Shape{slots + 1, 3, 2}));
  EXPECT_EQ(states_.buffer(1).shape, (Shape{2, slots + 1, 5}));
  EXPECT_EQ(states_.buffer(2).shape, (Shape{slots + 1}));
  EXPECT_EQ(states_.buffer(2).dtype, DType::i32);
}

TEST_F(SlotStateCacheTest, AStreamStartsWithZeroWhateverTheSlotHeldBefore) {
  states_.allocate_stream(2);
  write(2, 7);
  states_.free_stream(2);
  states_.allocate_stream(2);
  expect_values(2, 0, 0);
}

TEST_F(SlotStateCacheTest, ResetZeroesOneStreamButKeepsWhatDescribesItsRequest) {
  for (int slot = 0; slot < slots; ++slot) {
    states_.allocate_stream(slot);
    write(slot, static_cast<float>(slot + 1));
  }
  states_.reset_stream(1);
  expect_values(0, 1, 1);
  expect_values(1, 0, 2);
  expect_values(2, 3, 3);
  expect_values(3, 4, 4);
}

TEST_F(SlotStateCacheTest, GathersTheLanesInTheirOrder) {
  for (int slot = 0; slot < slots; ++slot) {
    states_.allocate_stream(slot);
    write(slot, static_cast<float>(slot + 1));
  }
  const std::vector<int32_t> lanes{3, 0};
  const SlotStateView state = states_.lanes(lanes)["memory"];
  ASSERT_EQ(state.shape(), (Shape{2, 2, 5}));
  const Tensor out = host_tensor(DType::f32, state.shape());
  state.gather(out);
  const auto lane = [&](int layer, int i) { return std::span(out.view()[layer][i].f32(), 5); };
  for (const int layer : {0, 1}) {
    EXPECT_THAT(lane(layer, 0), Each(4.0F));
    EXPECT_THAT(lane(layer, 1), Each(1.0F));
  }
}

TEST_F(SlotStateCacheTest, ScattersToItsLanesAndNoOtherSlot) {
  Random random(3);
  SCOPED_TRACE(random.trace());
  for (int slot = 0; slot < slots; ++slot) states_.allocate_stream(slot);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<int32_t> lanes = random.permutation(slots);
    lanes.resize(static_cast<size_t>(random.between(1, slots)));
    lanes.push_back(states_.scratch_slot());
    for (const size_t state : {size_t{0}, size_t{1}}) {
      const TensorView buffer = states_.buffer(state);
      const Tensor before = host_tensor(buffer.shape, Random::values(buffer));
      const SlotStateView view = states_.lanes(lanes)[state];
      const Tensor values = random.tensor(view.shape());
      view.scatter(values);
      const Tensor back = host_tensor(DType::f32, view.shape());
      view.gather(back);
      EXPECT_TRUE(same_bits(Random::values(back), Random::values(values)));
      for (int32_t slot = 0; slot < slots; ++slot) {
        if (std::ranges::find(lanes, slot) != lanes.end()) continue;
        const Shape one = view.spec().shape.with_axis(view.spec().slot_axis, 1);
        const Tensor now = host_tensor(DType::f32, one);
        const Tensor then = host_tensor(DType::f32, one);
        ops_.index_select(buffer, view.spec().slot_axis, {&slot, 1}, now);
        ops_.index_select(before, view.spec().slot_axis, {&slot, 1}, then);
        EXPECT_TRUE(same_bits(Random::values(now), Random::values(then))) << "slot " << slot;
      }
    }
  }
}

TEST_F(SlotStateCacheTest, NeverMovesAState) {
  const std::byte* const address = states_.buffer(1).data;
  states_.allocate_stream(0);
  write(0, 1);
  states_.reset_stream(0);
  states_.free_stream(0);
  EXPECT_EQ(states_.buffer(1).data, address);
}

TEST_F(SlotStateCacheTest, GivesNoStreamAScratchSlot) {
  EXPECT_EQ(states_.scratch_slot(), slots);
  expect_throws<std::invalid_argument>([&] { states_.allocate_stream(slots); }, "slot 4", "[0, 4)");
  expect_throws<std::out_of_range>([&] { (void)states_.scratch_slot(1); }, "1", "[0, 1)");
}

TEST_F(SlotStateCacheTest, TakesManyPaddingLanesOnOneScratchSlotButOneLaneAStream) {
  states_.allocate_stream(0);
  states_.allocate_stream(1);
  const std::vector<int32_t> padded{1, 0, 4, 4, 4};
  EXPECT_EQ(states_.lanes(padded)["memory"].shape(), (Shape{2, 5, 5}));
  const std::vector<int32_t> twice{1, 0, 1};
  expect_throws<std::invalid_argument>([&] { (void)states_.lanes(twice); }, "slot 1", "two lanes");
}

TEST_F(SlotStateCacheTest, StatesExpectedAndActualShapeOnAMismatch) {
  states_.allocate_stream(0);
  const SlotStateView state = view("memory", 0);
  const Tensor wrong = host_tensor(DType::f32, {2, 1, 4});
  expect_throws<std::invalid_argument>([&] { state.gather(wrong); }, "gather", "memory", "2x1x4", "2x1x5");
  expect_throws<std::invalid_argument>([&] { state.scatter(wrong); }, "scatter", "memory", "2x1x4", "2x1x5");
  const Tensor integers = host_tensor(DType::i32, {2, 1, 5});
  expect_throws<std::invalid_argument>([&] { state.gather(integers); }, "memory", "dtype");
}

TEST_F(SlotStateCacheTest, NamesTheStatesThereAre) {
  expect_throws<std::out_of_range>([&] { (void)states_.lanes({})["tail"]; }, "tail",
                                   "embed.tail, memory, prompt");
  expect_throws<std::out_of_range>([&] { states_.fill_slot("tail", 0, 1); }, "tail", "memory");
}

TEST_F(SlotStateCacheTest, RefusesAValueThatTheStateCannotHold) {
  states_.allocate_stream(0);
  for (const double value : {1.5, 3e9, std::numeric_limits<double>::quiet_NaN()}) {
    expect_throws<std::invalid_argument>([&] { states_.fill_slot("prompt", 0, value); }, "prompt");
  }
  SlotStateCache halves({{.name = "x", .shape = {2}, .persistent = true, .dtype = DType::bf16}}, 1, 0, ops_);
  halves.allocate_stream(0);
  halves.fill_slot("x", 0, 0);
  expect_throws<std::invalid_argument>([&] { halves.fill_slot("x", 0, 1); }, "'x'", "1");
}

TEST_F(SlotStateCacheTest, RefusesToFillWhatAResetWouldUndo) {
  states_.allocate_stream(0);
  expect_throws<std::invalid_argument>([&] { states_.fill_slot("memory", 0, 1); }, "memory",
                                       "not persistent");
}

TEST_F(SlotStateCacheTest, RefusesASlotThatIsTaken) {
  states_.allocate_stream(1);
  write(1, 5);
  expect_throws<std::invalid_argument>([&] { states_.allocate_stream(1); }, "slot 1", "already");
  expect_values(1, 5, 5);
}

TEST_F(SlotStateCacheTest, DoesNotKnowASlotThatIsFree) {
  for (const int32_t slot : {-1, 0, slots + 1}) {
    expect_throws<UnknownStream>([&] { states_.free_stream(slot); }, "free_stream", "not allocated");
    expect_throws<UnknownStream>([&] { states_.reset_stream(slot); }, "reset_stream", "slot");
    expect_throws<UnknownStream>([&] { states_.fill_slot("prompt", slot, 1); }, "fill_slot");
    expect_throws<UnknownStream>([&] { (void)states_.lanes({&slot, 1}); }, "lanes");
  }
}

TEST(SlotStateCache, RefusesDeclarationsThatItCannotKeepApartOrStore) {
  HostOps ops;
  const auto make = [&](std::vector<StreamStateSpec> specs) { SlotStateCache(std::move(specs), 2, 1, ops); };
  expect_throws<std::invalid_argument>(
      [&] {
        make({{.name = "a", .shape = {}}, {.name = "a", .shape = {}}});
      },
      "'a'", "twice");
  expect_throws<std::invalid_argument>(
      [&] {
        make({{.name = "a", .shape = {2, 3}, .slot_axis = 3}});
      },
      "'a'", "slot_axis 3", "[0, 2]");
  expect_throws<std::invalid_argument>([&] { make({{.name = "a", .shape = {2}, .slot_axis = -1}}); },
                                       "slot_axis -1");
  expect_throws<std::invalid_argument>(
      [&] {
        make({{.name = "a", .shape = {1, 1, 1, 1, 1}}});
      },
      "1x1x1x1x1", "4 axes");
  expect_throws<std::invalid_argument>([&] { make({{.name = "a", .shape = {2, -3}}}); }, "2x-3", "negative");
  expect_throws<std::invalid_argument>([&] { SlotStateCache({}, 0, 0, ops); }, "0 streams");
  expect_throws<std::invalid_argument>([&] { SlotStateCache({}, 1, -1, ops); }, "-1 scratch");
}

TEST(SlotStateCache, MayHaveNoStates) {
  HostOps ops;
  SlotStateCache states({}, 1, 0, ops);
  states.allocate_stream(0);
  states.reset_stream(0);
  states.free_stream(0);
  EXPECT_TRUE(states.specs().empty());
}

}  // namespace
}  // namespace tutti
