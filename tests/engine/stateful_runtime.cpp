#include "stateful_runtime.hpp"

#include <cstring>

namespace tutti {

namespace {

/// Calls visit(stream's part, batch's part, bytes) for each run of memory that both hold of `lane`.
template <class Visit>
void each_run(const TensorView& stream, const TensorView& batch, int axis, int64_t lane, Visit visit) {
  int64_t outer = 1;
  for (int i = 0; i < axis; ++i) outer *= batch.shape[i];
  const size_t bytes = stream.bytes() / static_cast<size_t>(outer);
  for (int64_t o = 0; o < outer; ++o) {
    visit(stream.data + static_cast<size_t>(o) * bytes,
          batch.data + static_cast<size_t>(o * batch.shape[axis] + lane) * bytes, bytes);
  }
}

}  // namespace

StatefulRuntime::StatefulRuntime(std::shared_ptr<const SlotEncoder> encoder, std::unique_ptr<Ops> ops,
                                 int max_batch_size)
    : encoder_(std::move(encoder)), ops_(std::move(ops)) {
  require_conditioning(encoder_->slot_state_specs(), encoder_->stream_conditioning(), "stateful runtime",
                       carries_encoder_conditioning);
  workspace_ = encoder_->make_workspace(*ops_, max_batch_size);
}

TensorView StatefulRuntime::forward(std::span<const SlotLane> lanes) {
  const std::span<const StreamStateSpec> specs = encoder_->slot_state_specs();
  std::vector<const float*> features;
  for (const SlotLane& lane : lanes) features.push_back(lane.features.f32());
  std::vector<Tensor> batch;
  for (const StreamStateSpec& spec : specs) {
    const auto width = static_cast<int64_t>(lanes.size());
    batch.push_back(host_tensor(spec.dtype, spec.shape.with_axis(spec.slot_axis, width)));
  }
  const auto each_state = [&](auto visit) {
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      const States& states = states_of(lanes[lane].slot);
      for (size_t i = 0; i < specs.size(); ++i) {
        each_run(states[i], batch[i], specs[i].slot_axis, static_cast<int64_t>(lane), visit);
      }
    }
  };
  each_state([](std::byte* stream, std::byte* all, size_t n) { std::memcpy(all, stream, n); });
  const std::vector<TensorView> views(batch.begin(), batch.end());
  const TensorView out = encoder_->forward_chunk(*ops_, *workspace_, {features, views});
  each_state([](std::byte* stream, std::byte* all, size_t n) { std::memcpy(stream, all, n); });
  return out;
}

StatefulRuntime::States& StatefulRuntime::states_of(int32_t slot) {
  const auto [stream, is_new] = streams_.try_emplace(slot);
  if (is_new) {
    for (const StreamStateSpec& spec : encoder_->slot_state_specs()) {
      stream->second.push_back(host_tensor(spec.dtype, spec.shape));
    }
  }
  return stream->second;
}

}  // namespace tutti
