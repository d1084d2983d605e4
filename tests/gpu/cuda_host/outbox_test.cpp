#include "gpu/cuda/outbox.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <vector>

#include "gpu/cuda/cuda_ops.hpp"
#include "tests/gpu/cuda_host/api.hpp"
#include "tests/gpu/cuda_host/kernel_fault.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace tutti {
namespace {

using cuda::Ring;

TEST(Ring, GivesOutPiecesThatDoNotOverlapAndTakesThemBackInTurn) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  constexpr size_t size = 1000;
  Ring ring(size);
  std::deque<Ring::Piece> out;
  size_t refused = 0;
  for (int i = 0; i < 5000; ++i) {
    const size_t bytes = 1 + random() % (i % 2 == 0 ? 40 : 600);
    const std::optional<size_t> begin = ring.take(bytes);
    refused += begin ? 0 : 1;
    if (begin) {
      ASSERT_LE(*begin + bytes, size);
      for (const Ring::Piece& other : out) {
        ASSERT_TRUE(*begin >= other.begin + other.bytes || *begin + bytes <= other.begin);
      }
      out.push_back({*begin, bytes});
    } else {
      ASSERT_FALSE(out.empty()) << "a piece of " << bytes;
    }
    while (!out.empty() && (!begin || random() % 3 == 0)) {
      EXPECT_EQ(ring.oldest().begin, out.front().begin);
      ring.give_back();
      out.pop_front();
      if (random() % 2 == 0) break;
    }
  }
  EXPECT_GT(refused, 0U);
}

/// Parcels of an Ops whose operations go on overwriting what they were gathered from.
class OutboxTest : public testing::Test {
 protected:
  static constexpr int width = 40;

  void open(const cuda::PluginApi& api, int64_t parcels) {
    outbox_.reset();
    values_ = {};
    ops_ = make_cuda_ops(api, 0);
    values_ = ops_->allocate(DType::i32, {1, width});
    outbox_ = ops_->make_outbox(parcels * bytes());
  }

  static int64_t bytes() { return cuda::Staging::padded(width * sizeof(int32_t)); }

  /// Sets the values, and sends a copy of them off.
  bool send(int32_t value) {
    ops_->index_fill(values_, 0, first_, value);
    std::byte* const place = outbox_->place(bytes());
    if (place == nullptr) return false;
    ops_->index_select(values_, 0, first_, {place, DType::i32, {1, width}});
    outbox_->send();
    return true;
  }

  /// Waits for the next parcel; whether all of it is `value`.
  bool receive(int32_t value) {
    std::span<const std::byte> parcel;
    while (parcel.empty()) parcel = outbox_->arrived();
    const std::span all(reinterpret_cast<const int32_t*>(parcel.data()), width);
    const bool is_it = std::ranges::count(all, value) == width;
    outbox_->drop();
    return is_it;
  }

  std::unique_ptr<Ops> ops_;
  const std::vector<int32_t> first_{0};
  Tensor values_;
  std::unique_ptr<Outbox> outbox_;
};

TEST_F(OutboxTest, DeliversWhatWasThereWhenItWasSentInOrder) {
  open(cuda::host::api(), 3);
  EXPECT_TRUE(outbox_->arrived().empty());
  int32_t sent = 0;
  int32_t received = 0;
  const int64_t waits = ops_->device_use().waits;
  while (received < 40) {
    while (sent < 40 && send(sent)) ++sent;
    EXPECT_LE(sent - received, 3);
    EXPECT_TRUE(receive(received++));
  }
  EXPECT_EQ(ops_->device_use().waits, waits);
}

TEST_F(OutboxTest, RefusesMoreThanItHasRoomForUntilSomethingHasArrived) {
  open(cuda::host::api(), 2);
  EXPECT_TRUE(send(1));
  EXPECT_TRUE(send(2));
  EXPECT_FALSE(send(3));
  EXPECT_TRUE(receive(1));
  EXPECT_TRUE(send(4));
  EXPECT_EQ(outbox_->place(outbox_->capacity() + 1), nullptr);
  EXPECT_TRUE(receive(2));
  EXPECT_TRUE(receive(4));
}

TEST_F(OutboxTest, ForgetsAPlaceThatWasNotSent) {
  open(cuda::host::api(), 1);
  for (int i = 0; i < 3; ++i) EXPECT_NE(outbox_->place(bytes()), nullptr);
  EXPECT_TRUE(outbox_->arrived().empty());
  EXPECT_TRUE(send(7));
  EXPECT_TRUE(receive(7));
}

TEST_F(OutboxTest, MayGoWhileParcelsAreOnTheirWay) {
  open(cuda::host::api(), 4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(send(i));
  outbox_.reset();
}

/// How many of 40 parcels held something else.
class WithoutAnOrder : public OutboxTest {
 protected:
  ~WithoutAnOrder() override {
    // Before the table of the plugin that they use.
    outbox_.reset();
    values_ = {};
    ops_.reset();
  }

  cuda::PluginApi broken_ = cuda::host::api();

  int wrong(const cuda::PluginApi& api) {
    open(api, 3);
    int count = 0;
    for (int32_t i = 1; i <= 40; ++i) {
      EXPECT_TRUE(send(i));
      count += receive(i) ? 0 : 1;
    }
    return count;
  }
};

TEST_F(WithoutAnOrder, CopiesThatDoNotFollowTheOwnersStreamAreSeen) {
  broken_.follow = [](cuda::Queue*, cuda::Event*) { return 0; };
  EXPECT_GT(wrong(broken_), 0);
  EXPECT_EQ(wrong(cuda::host::api()), 0);
}

TEST_F(WithoutAnOrder, MemoryThatIsReadBeforeACopyHasArrivedIsSeen) {
  broken_.reached = [](cuda::Event*, int* yes) {
    *yes = 1;
    return 0;
  };
  EXPECT_GT(wrong(broken_), 0);
}

TEST(CudaHost, RefusesAKernelThatIsGivenAnotherGpusMemory) {
  const auto first = make_cuda_ops(cuda::host::api(), 0);
  const auto second = make_cuda_ops(cuda::host::api(), 1);
  const Tensor here = first->allocate(DType::f32, {1, 8});
  const Tensor there = second->allocate(DType::f32, {1, 8});
  const std::vector<int32_t> entry{0};
  EXPECT_NO_THROW(first->index_fill(here, 0, entry, 0));
  EXPECT_THROW(first->index_fill(there, 0, entry, 0), cuda::host::KernelFault);
  EXPECT_THROW(first->copy(there, here), cuda::host::KernelFault);
}

TEST(CudaHost, RefusesWhatMayNotBeDoneWhileAGraphIsRecorded) {
  const cuda::PluginApi& api = cuda::host::api();
  cuda::Queue* queue = nullptr;
  cuda::Event* event = nullptr;
  cuda::Graph* graph = nullptr;
  std::byte* memory = nullptr;
  int32_t not_pinned = 0;
  int yes = 0;
  ASSERT_EQ(api.open_queue(0, &queue), 0);
  ASSERT_EQ(api.open_event(0, 0, &event), 0);
  ASSERT_EQ(api.allocate(0, sizeof(not_pinned), &memory), 0);
  ASSERT_EQ(api.mark(queue, event), 0);
  ASSERT_EQ(api.start_recording(queue, cuda::QueueMode::record), 0);
  std::byte* more = nullptr;
  EXPECT_THROW(api.allocate(0, 4, &more), cuda::host::KernelFault);
  EXPECT_THROW(api.allocate_pinned(4, 0, &more), cuda::host::KernelFault);
  EXPECT_THROW(api.copy(queue, memory, &not_pinned, sizeof(not_pinned)), cuda::host::KernelFault);
  EXPECT_THROW(api.mark(queue, event), cuda::host::KernelFault);
  EXPECT_THROW(api.follow(queue, event), cuda::host::KernelFault);
  EXPECT_THROW(api.reached(event, &yes), cuda::host::KernelFault);
  EXPECT_THROW(api.wait(queue), cuda::host::KernelFault);
  ASSERT_EQ(api.finish_recording(queue, &graph), 0);
  api.release_graph(graph);
  EXPECT_EQ(api.wait(queue), 0);
  api.close_event(event);
  api.release(memory);
  api.close_queue(queue);
}

TEST(CudaHost, FailsEveryCallToAGpuThatIsLost) {
  const auto ops = make_cuda_ops(cuda::host::api(), 1);
  const Tensor tensor = ops->allocate(DType::f32, {1, 8});
  std::vector<float> values(8);
  cuda::host::lose_device(1);
  EXPECT_THROW(ops->index_fill(tensor, 0, std::vector<int32_t>{0}, 0), cuda::DeviceError);
  EXPECT_THROW(ops->download(tensor, values), cuda::DeviceError);
  EXPECT_THROW(static_cast<void>(make_cuda_ops(cuda::host::api(), 1)), cuda::DeviceError);
  EXPECT_NO_THROW(static_cast<void>(make_cuda_ops(cuda::host::api(), 0)));
  cuda::host::find_devices();
}

}  // namespace
}  // namespace tutti
