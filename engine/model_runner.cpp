#include "engine/model_runner.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace tutti {

CacheConfig with_model_geometry(CacheConfig cache, const ConformerCtc& model) {
  const CacheConfig geometry = model.cache_config();
  cache.num_layers = geometry.num_layers;
  cache.n_kv_head = geometry.n_kv_head;
  cache.head_dim = geometry.head_dim;
  cache.hidden_dim = geometry.hidden_dim;
  cache.kernel_size = geometry.kernel_size;
  return cache;
}

namespace {

EncoderOutput without_padding(EncoderOutput out, int lanes) {
  out.layout = {out.layout.row_begin.first(static_cast<size_t>(lanes) + 1)};
  for (TensorView* rows : {&out.encoder_out, &out.log_probs, &out.top_ids, &out.top_log_probs}) {
    *rows = rows->slice(0, out.layout.rows());
  }
  return out;
}

}  // namespace

ModelRunner::ModelRunner(std::shared_ptr<const ConformerCtc> model, std::unique_ptr<Ops> ops,
                         CacheConfig cache, std::unique_ptr<const CtcDecoder> decoder)
    : model_(std::move(model)),
      ops_(std::move(ops)),
      most_padded_(ops_->most_padded_lanes()),
      pool_(with_model_geometry(cache, *model_), *ops_, kv_dtype, most_padded_ > 0 ? 1 : 0),
      attention_(pool_, pool_.config(), most_padded_ > 0 ? 1 : 0),
      cnn_(pool_.config(), *ops_, most_padded_ > 0 ? 1 : 0),
      ctc_(std::move(decoder), pool_.config().max_streams),
      batch_(pool_, padded_lanes(pool_.config().max_batch_size), attention_.table_width()),
      workspace_(
          model_->make_workspace(*ops_, cache.chunk_size, batch_.max_lanes(), ctc_.decoder().top_k())) {
  if (most_padded_ > 0) {
    blank_window_ = ops_->allocate(
        DType::f32, {ConformerCtc::geometry(cache.chunk_size).window, model_->spec().fbank.num_mel_bins});
  }
  const auto lanes = static_cast<size_t>(batch_.max_lanes());
  ids_.reserve(lanes);
  frames_.reserve(lanes);
  features_.reserve(lanes);
  feature_frames_.reserve(lanes);
  slots_.reserve(lanes);
  first_position_.reserve(lanes);
}

// The next power of two, where that many are worth it.
int ModelRunner::padded_lanes(int lanes) const {
  const bool worth = lanes > 0 && lanes <= most_padded_;
  return worth ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(lanes))) : lanes;
}

// Behind the lanes of streams; `batch_` has them already.
void ModelRunner::add_padding(int lanes) {
  const PagedKv kv = batch_.layer(0);
  for (auto lane = static_cast<size_t>(batch_.lanes() - lanes); lane < kv.cache_seqlens.size(); ++lane) {
    frames_.push_back(pool_.config().chunk_size);
    features_.push_back(blank_window_.view().f32());
    feature_frames_.push_back(ConformerCtc::geometry(pool_.config().chunk_size).window);
    slots_.push_back(cnn_.scratch_slot());
    first_position_.push_back(kv.cache_seqlens[lane]);
  }
}

void ModelRunner::take(std::span<const ChunkLane> lanes) {
  ids_.clear();
  frames_.clear();
  features_.clear();
  feature_frames_.clear();
  slots_.clear();
  first_position_.clear();
  for (const ChunkLane& lane : lanes) {
    ids_.push_back(lane.id);
    frames_.push_back(StreamingGeometry::encoder_frames(lane.feature_frames));
    features_.push_back(lane.features);
    feature_frames_.push_back(lane.feature_frames);
    slots_.push_back(lane.slot);
    first_position_.push_back(lane.first_position);
  }
}

// Of the lanes that were taken, and so many that pad.
EncoderOutput ModelRunner::pass(int padding, bool repeats, const Probe* probe) {
  attention_.fill_batch(ids_, batch_, padding);
  add_padding(padding);
  struct Pass {
    ModelRunner& runner;
    const Probe* probe;
    EncoderOutput out;
  } pass{*this, probe, {}};
  ops_->repeat(repeats ? batch_.lanes() : 0, [&pass] {
    ModelRunner& r = pass.runner;
    pass.out = r.model_->forward(*r.ops_, r.workspace_,
                                 {.features = r.features_,
                                  .feature_frames = r.feature_frames_,
                                  .slots = r.slots_,
                                  .first_position = r.first_position_},
                                 r.batch_, r.cnn_, pass.probe);
  });
  return pass.out;
}

EncoderOutput ModelRunner::forward(std::span<const ChunkLane> lanes, const Probe* probe) {
  take(lanes);
  attention_.prepare_chunks_batched(ids_, frames_);
  // Batches of short chunks, or of any that are watched, are seldom the same.
  const int chunk = pool_.config().chunk_size;
  const bool usual = probe == nullptr && std::ranges::all_of(frames_, [=](int n) { return n == chunk; });
  const auto width = static_cast<int>(lanes.size());
  EncoderOutput out = without_padding(pass(usual ? padded_lanes(width) - width : 0, usual, probe), width);
  for (size_t i = 0; i < ids_.size(); ++i) attention_.commit_chunk_paged(ids_[i], frames_[i]);
  const CtcRows rows = ctc_.begin_chunks(ids_, out.layout, {out.top_ids, out.top_log_probs});
  out.top_ids = rows.ids;
  out.top_log_probs = rows.log_probs;
  return out;
}

void ModelRunner::warm_up() {
  std::vector<int32_t> ids(static_cast<size_t>(top_k()));
  for (int width = 1; width <= std::min(most_padded_, batch_.max_lanes()); width *= 2) {
    // The first shows the device what is to be made once, the second is recorded.
    for (int time = 0; time < 2; ++time) {
      take({});
      const EncoderOutput out = pass(width, true, nullptr);
      const Reading one_row{out.top_ids.slice(0, 1), reinterpret_cast<std::byte*>(ids.data())};
      ops_->read({&one_row, 1});
    }
  }
}

}  // namespace tutti
