#include "cache/slot_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace tutti {

namespace {

void require_storable(const StreamStateSpec& spec) {
  constexpr auto where = "SlotStateCache";
  const int rank = spec.shape.rank();
  const int max_rank = static_cast<int>(Shape::max_rank) - 1;
  if (rank > max_rank) {
    throw std::invalid_argument(fmt::format("{}: state '{}' has shape {}, expected at most {} axes", where,
                                            spec.name, to_string(spec.shape), max_rank));
  }
  for (int i = 0; i < rank; ++i) {
    if (spec.shape[i] >= 0) continue;
    throw std::invalid_argument(fmt::format("{}: state '{}' has shape {}, expected no negative extent", where,
                                            spec.name, to_string(spec.shape)));
  }
  if (spec.slot_axis < 0 || spec.slot_axis > rank) {
    throw std::invalid_argument(fmt::format("{}: state '{}' has slot_axis {}, expected one of [0, {}]", where,
                                            spec.name, spec.slot_axis, rank));
  }
}

void require_distinct(std::span<const StreamStateSpec> specs) {
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto same = [&](const StreamStateSpec& other) { return other.name == specs[i].name; };
    if (std::ranges::none_of(specs.first(i), same)) continue;
    throw std::invalid_argument(
        fmt::format("SlotStateCache: state '{}' is declared twice, expected distinct names", specs[i].name));
  }
}

bool has_value(DType dtype, double value) {
  using I32 = std::numeric_limits<int32_t>;
  switch (dtype) {
    case DType::f32:
      return true;
    case DType::i32:
      return value == std::trunc(value) && value >= I32::min() && value <= I32::max();
    default:
      return value == 0;
  }
}

}  // namespace

Shape SlotStateView::shape() const {
  return spec_->shape.with_axis(spec_->slot_axis, static_cast<int64_t>(slots_.size()));
}

void SlotStateView::gather(const TensorView& out) const {
  require_fit("SlotStateView::gather", out);
  ops_->index_select(buffer_, spec_->slot_axis, slots_, out);
}

void SlotStateView::scatter(const TensorView& values) const {
  require_fit("SlotStateView::scatter", values);
  ops_->index_copy(values, spec_->slot_axis, slots_, buffer_);
}

void SlotStateView::require_fit(const char* where, const TensorView& lanes) const {
  if (lanes.shape != shape()) {
    throw std::invalid_argument(fmt::format("{}: state '{}': shape {}, expected {}", where, spec_->name,
                                            to_string(lanes.shape), to_string(shape())));
  }
  if (lanes.dtype != spec_->dtype) {
    throw std::invalid_argument(
        fmt::format("{}: state '{}': the elements are not of the declared dtype", where, spec_->name));
  }
}

SlotStateView SlotStateLanes::operator[](size_t state) const {
  return {cache_->specs_[state], cache_->buffers_[state], slots_, cache_->ops_};
}

SlotStateView SlotStateLanes::operator[](std::string_view name) const {
  return (*this)[cache_->index_of(name)];
}

SlotStateCache::SlotStateCache(std::vector<StreamStateSpec> specs, int max_streams, int scratch_slots,
                               Ops& ops)
    : specs_(std::move(specs)), scratch_slots_(scratch_slots), ops_(ops) {
  if (max_streams < 1 || scratch_slots < 0) {
    throw std::invalid_argument(
        fmt::format("SlotStateCache: {} streams and {} scratch slots, expected at least 1 and 0", max_streams,
                    scratch_slots));
  }
  taken_.resize(static_cast<size_t>(max_streams));
  require_distinct(specs_);
  buffers_.reserve(specs_.size());
  for (const StreamStateSpec& spec : specs_) {
    require_storable(spec);
    const int64_t slots = int64_t{max_streams} + scratch_slots;
    buffers_.push_back(ops.allocate(spec.dtype, spec.shape.with_axis(spec.slot_axis, slots)));
  }
}

void SlotStateCache::allocate_stream(int slot) {
  constexpr auto where = "SlotStateCache::allocate_stream";
  if (slot < 0 || slot >= max_streams()) {
    throw std::invalid_argument(
        fmt::format("{}: slot {}, expected one of [0, {})", where, slot, max_streams()));
  }
  if (taken_[static_cast<size_t>(slot)]) {
    throw std::invalid_argument(fmt::format("{}: slot {} is already allocated", where, slot));
  }
  for (size_t i = 0; i < specs_.size(); ++i) fill(i, slot, 0);
  taken_[static_cast<size_t>(slot)] = true;
}

void SlotStateCache::reset_stream(int slot) {
  require_allocated("SlotStateCache::reset_stream", slot);
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (!specs_[i].persistent) fill(i, slot, 0);
  }
}

void SlotStateCache::free_stream(int slot) {
  require_allocated("SlotStateCache::free_stream", slot);
  taken_[static_cast<size_t>(slot)] = false;
}

void SlotStateCache::fill_slot(std::string_view name, int slot, double value) {
  constexpr auto where = "SlotStateCache::fill_slot";
  const size_t state = index_of(name);
  require_allocated(where, slot);
  if (!specs_[state].persistent) {
    throw std::invalid_argument(
        fmt::format("{}: state '{}' is not persistent: the next reset would undo it", where, name));
  }
  if (!has_value(specs_[state].dtype, value)) {
    throw std::invalid_argument(
        fmt::format("{}: state '{}' cannot hold {}", where, specs_[state].name, value));
  }
  fill(state, slot, value);
}

SlotStateLanes SlotStateCache::lanes(std::span<const int32_t> slots) const {
  constexpr auto where = "SlotStateCache::lanes";
  for (auto slot = slots.begin(); slot != slots.end(); ++slot) {
    if (*slot >= max_streams() && *slot < max_streams() + scratch_slots_) continue;
    require_allocated(where, *slot);
    if (std::find(slots.begin(), slot, *slot) == slot) continue;
    throw std::invalid_argument(
        fmt::format("{}: slot {} has two lanes, expected one a stream", where, *slot));
  }
  return {*this, slots};
}

int SlotStateCache::scratch_slot(int i) const {
  if (i < 0 || i >= scratch_slots_) {
    throw std::out_of_range(
        fmt::format("SlotStateCache::scratch_slot: {}, expected one of [0, {})", i, scratch_slots_));
  }
  return max_streams() + i;
}

size_t SlotStateCache::index_of(std::string_view name) const {
  const auto found = std::ranges::find(specs_, name, &StreamStateSpec::name);
  if (found != specs_.end()) return static_cast<size_t>(found - specs_.begin());
  std::string declared;
  for (const StreamStateSpec& spec : specs_) declared += (declared.empty() ? "" : ", ") + spec.name;
  throw std::out_of_range(fmt::format("SlotStateCache: no state is named '{}', expected one of: {}", name,
                                      declared.empty() ? "(none is declared)" : declared));
}

void SlotStateCache::require_allocated(const char* where, int slot) const {
  const bool allocated = slot >= 0 && slot < max_streams() && taken_[static_cast<size_t>(slot)];
  if (!allocated) throw UnknownStream(where, slot, "slot");
}

void SlotStateCache::fill(size_t state, int32_t slot, double value) {
  ops_.index_fill(buffers_[state], specs_[state].slot_axis, std::span(&slot, 1), value);
}

}  // namespace tutti
