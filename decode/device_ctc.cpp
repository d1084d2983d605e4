#include "decode/device_ctc.hpp"

#include <utility>

namespace tutti {

namespace {

struct DeviceState final : CtcState {
  explicit DeviceState(int index_) : index(index_) {}
  int index;
  int64_t frames = 0;
  bool fresh = true;  // the device does not know yet that it was reset
};

DeviceState& device_state(CtcState& state) { return static_cast<DeviceState&>(state); }
const DeviceState& device_state(const CtcState& state) { return static_cast<const DeviceState&>(state); }

}  // namespace

DeviceCtcDecoder::DeviceCtcDecoder(std::unique_ptr<const CtcDecoder> host, std::unique_ptr<CtcSearch> search,
                                   Ops& ops, int rows)
    : host_(std::move(host)),
      host_state_(host_->create_state()),
      fresh_(host_->save_state(*host_state_)),
      search_(std::move(search)),
      best_ids_(ops.allocate(DType::i32, {rows, 1})),
      best_log_probs_(ops.allocate(DType::f32, {rows, 1})) {}

std::unique_ptr<CtcState> DeviceCtcDecoder::create_state() const {
  return std::make_unique<DeviceState>(states_++);
}

void DeviceCtcDecoder::reset_state(CtcState& state) const {
  device_state(state).frames = 0;
  device_state(state).fresh = true;
}

CtcRows DeviceCtcDecoder::begin_chunks(std::span<const CtcLane> lanes, const CtcRows& rows) const {
  lanes_.clear();
  for (const CtcLane& lane : lanes) {
    const DeviceState& state = device_state(*lane.state);
    lanes_.push_back({.state = state.index,
                      .first_row = lane.first_row,
                      .rows = lane.frames,
                      .restart = state.fresh ? 1 : 0});
  }
  const CtcRows best{best_ids_.view().slice(0, rows.ids.rows()),
                     best_log_probs_.view().slice(0, rows.ids.rows())};
  search_->search(lanes_, rows.ids, rows.log_probs, best.ids, best.log_probs);
  return best;
}

void DeviceCtcDecoder::decode_chunk(CtcState& state, const CtcFrames& frames) const {
  device_state(state).frames += frames.frames;
  device_state(state).fresh = false;
}

std::span<const CtcToken> DeviceCtcDecoder::best(const CtcState& state) const {
  const DeviceState& known = device_state(state);
  return known.fresh ? std::span<const CtcToken>() : search_->best(known.index);
}

size_t DeviceCtcDecoder::write_nbest(const CtcState& state, std::vector<CtcHypothesis>& hypotheses) const {
  host_->load_state(*host_state_, save_state(state));
  return host_->write_nbest(*host_state_, hypotheses);
}

int64_t DeviceCtcDecoder::frames(const CtcState& state) const { return device_state(state).frames; }

std::span<const CtcToken> DeviceCtcDecoder::finalize_stream(CtcState& state) const { return best(state); }

std::vector<std::byte> DeviceCtcDecoder::save_state(const CtcState& state) const {
  const int64_t bytes = device_bytes(state);
  if (bytes == 0) return fresh_;
  std::vector<std::byte> saved(static_cast<size_t>(bytes));
  search_->read(device_state(state).index, saved.data());
  return saved;
}

void DeviceCtcDecoder::load_state(CtcState& state, std::span<const std::byte> bytes) const {
  host_->load_state(*host_state_, bytes);
  DeviceState& loaded = device_state(state);
  search_->write(loaded.index, bytes, host_->best(*host_state_));
  loaded.frames = host_->frames(*host_state_);
  loaded.fresh = false;
}

int64_t DeviceCtcDecoder::device_bytes(const CtcState& state) const {
  const DeviceState& known = device_state(state);
  return known.fresh ? 0 : search_->used_bytes(known.index);
}

void DeviceCtcDecoder::gather_state(const CtcState& state, std::byte* to) const {
  search_->gather(device_state(state).index, to);
}

}  // namespace tutti
