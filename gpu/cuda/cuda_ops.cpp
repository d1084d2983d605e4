#include "gpu/cuda/cuda_ops.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/cuda/batch_arrays.hpp"
#include "gpu/cuda/ctc_search.hpp"
#include "gpu/cuda/outbox.hpp"
#include "gpu/cuda/packed.hpp"
#include "gpu/cuda/staging.hpp"
#include "gpu/cuda/stopwatch.hpp"

namespace tutti {
namespace {

/// Enough for the index arrays of a tick of any usual size.
constexpr size_t staging_bytes = size_t{4} << 20;
/// From so many lanes on, what launches cost the host is little beside what they do.
constexpr int most_padded = 64;
/// Of what is read, the largest piece that is copied at once.
constexpr size_t read_piece = size_t{1} << 20;
/// Scratch of the first convolution, 32 MiB, which a GPU's second-level cache keeps until the second one
/// reads it: 25 lanes' of a model of width 256.
constexpr int64_t conv1_floats = int64_t{8} << 20;
/// Scratch of the second convolution. The product behind it has one column of tiles for 64 rows and 64 of the
/// model's width, and needs many rows to occupy a GPU: the most are 64 MiB, 215 lanes' of that model.
constexpr int64_t least_conv2_floats = conv1_floats / 4;
constexpr int64_t most_conv2_floats = int64_t{16} << 20;
/// What a row has there of 80 bins and width 512. Of a wider model fewer rows are multiplied at once.
constexpr int64_t usual_flat = 19 * 512;
/// Words of scratch for rows as codes: 8 MiB, which a GPU's second-level cache keeps until they are
/// multiplied, are enough for tiles on all its multiprocessors.
constexpr int64_t code_words = int64_t{2} << 20;

cuda::IndexedAxis indexed(const TensorView& tensor, int axis) {
  cuda::IndexedAxis view{1, tensor.shape[axis], 1, static_cast<int32_t>(size_of(tensor.dtype))};
  for (int i = 0; i < axis; ++i) view.outer *= tensor.shape[i];
  for (int i = axis + 1; i < tensor.shape.rank(); ++i) view.inner *= tensor.shape[i];
  return view;
}

/// Shows profilers what the host does while it lasts.
class Range {
 public:
  Range(const cuda::PluginApi& api, const char* name) : api_(api) { api_.begin_range(name); }
  ~Range() { api_.end_range(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  const cuda::PluginApi& api_;
};

class CudaOps final : public Ops {
 public:
  CudaOps(const cuda::PluginApi& api, int device, cuda::MatrixType type)
      : api_(api),
        device_(device),
        type_(type),
        staging_(api, device, staging_bytes),
        description_(fmt::format("cuda:{} ({})", device, cuda::matrix_type_name(type))) {}

  ~CudaOps() override {
    static_cast<void>(api_.wait(queue()));  // for work that is being repeated
    for (const Graph& graph : graphs_) {
      if (graph.recorded != nullptr) api_.release_graph(graph.recorded);
    }
  }
  CudaOps(const CudaOps&) = delete;
  CudaOps& operator=(const CudaOps&) = delete;

  [[nodiscard]] std::string_view description() const override { return description_; }

  [[nodiscard]] Tensor allocate(DType dtype, const Shape& shape) override {
    std::byte* memory = nullptr;
    const size_t bytes = static_cast<size_t>(shape.elements()) * size_of(dtype);
    check(api_.allocate(device_, bytes, &memory), "allocate memory");
    staging_.count_allocation();
    return {memory, api_.release, dtype, shape};
  }

  [[nodiscard]] Tensor upload(const TensorView& host) override {
    Tensor tensor = allocate(host.dtype, host.shape);
    staging_.copy(tensor.view().data, host.data, host.bytes());
    staging_.wait();
    return tensor;
  }

  void read(std::span<const Reading> readings) override {
    const Range range(api_, "read results");
    for (const Reading& reading : readings) {
      for (size_t done = 0; done < reading.from.bytes(); done += read_piece) {
        const size_t bytes = std::min(read_piece, reading.from.bytes() - done);
        if (!staging_.fits(bytes)) finish_reading();
        std::byte* const here = staging_.place(bytes).host;
        staging_.copy(here, reading.from.data + done, bytes);
        arriving_.push_back({here, bytes, reading.to + done});
      }
    }
    staging_.end_timing();
    finish_reading();
  }

  void write(std::span<const Writing> writings) override {
    for (const Writing& writing : writings) staging_.write(writing.to.data, writing.from, writing.to.bytes());
  }

  [[nodiscard]] std::unique_ptr<Outbox> make_outbox(int64_t bytes) override {
    return std::make_unique<cuda::CudaOutbox>(api_, device_, staging_, static_cast<size_t>(bytes));
  }

  [[nodiscard]] std::unique_ptr<CtcSearch> make_ctc_search(const CtcSearchSpec& spec, int states) override {
    return std::make_unique<cuda::CudaCtcSearch>(api_, device_, staging_, spec, states);
  }

  [[nodiscard]] std::unique_ptr<Stopwatch> make_stopwatch() override {
    return std::make_unique<cuda::CudaStopwatch>(api_, device_, staging_);
  }

  void reserve(int lanes, int rows, int64_t samples) override {
    arrays_.reserve(lanes, rows);
    streams_.reserve(static_cast<size_t>(lanes));
    floats(codes_, code_words);  // for weights that another Ops may have packed
    if (samples == 0) return;
    staging_.reserve(staging_bytes + static_cast<size_t>(samples) * sizeof(float));
    staging_.reserve_recorded(staging_bytes);
    floats(conv1_, conv1_floats);
    floats(conv2_, std::clamp(rows * usual_flat, least_conv2_floats, most_conv2_floats));
  }

  [[nodiscard]] bool is_queued() const override { return true; }
  [[nodiscard]] DeviceUse device_use() const override { return staging_.use(); }

  [[nodiscard]] std::shared_ptr<const PackedLinear> pack_linear(const TensorView& weight,
                                                                const TensorView& bias) override {
    return std::make_shared<cuda::CudaLinear>(*this, type_, weight, bias);
  }

  [[nodiscard]] std::shared_ptr<const PackedSubsampling> pack_subsampling(const SubsamplingWeights& weights,
                                                                          int num_mel_bins) override {
    return std::make_shared<cuda::CudaSubsampling>(*this, type_, weights, num_mel_bins);
  }

  [[nodiscard]] std::shared_ptr<const PackedFbank> pack_fbank(const FbankTables& tables) override {
    return std::make_shared<cuda::CudaFbank>(*this, tables);
  }

  void fbank(const PackedFbank& tables, std::span<const FbankJob> jobs) override {
    const Range range(api_, "features");
    staging_.begin_timing();
    const auto& packed = static_cast<const cuda::CudaFbank&>(tables);
    size_t samples = 0;
    for (const FbankJob& job : jobs) samples += packed.samples(job.frames);
    // The samples, and behind them what says whose they are, in one place: a second one may take the first's.
    const size_t sample_bytes = cuda::Staging::padded(samples * sizeof(float));
    const cuda::Staging::Place at = staging_.place(sample_bytes + jobs.size() * sizeof(cuda::FbankStream));
    streams_.clear();
    int32_t frames = 0;
    for (size_t done = 0; const FbankJob& job : jobs) {
      if (job.frames == 0) continue;
      std::copy_n(job.samples, packed.samples(job.frames), reinterpret_cast<float*>(at.host) + done);
      streams_.push_back({reinterpret_cast<const float*>(at.device) + done, job.out, frames});
      done += packed.samples(job.frames);
      frames += job.frames;
    }
    const auto streams = std::as_bytes(std::span(streams_));
    std::ranges::copy(streams, at.host + sample_bytes);
    staging_.copy(at.device, at.host, sample_bytes + streams.size());
    check(api_.kernels.fbank(queue(), packed.tables(),
                             reinterpret_cast<const cuda::FbankStream*>(at.device + sample_bytes),
                             static_cast<int>(streams_.size()), frames, packed.shift()),
          "compute features");
  }

  void mean_of_rows(const TensorView& x, std::span<const int32_t> rows, int group,
                    const TensorView& means) override {
    assert(means.shape.elements() == static_cast<int64_t>(rows.size()));
    const auto [from] = staging_.stage(rows);
    check(api_.kernels.mean_of_rows(queue(), x.f32(), from, static_cast<int64_t>(rows.size()), x.cols(),
                                    group * x.cols(), means.f32()),
          "average rows");
  }

  void cmvn(const BatchLayout& layout, std::span<const float* const> features, const TensorView& mean,
            const TensorView& istd, const TensorView& out) override {
    const auto [lanes, row_begin] = staging_.stage(features, layout.row_begin);
    check(api_.kernels.cmvn(queue(), lanes, row_begin, layout.lanes(), layout.rows(), out.cols(), mean.f32(),
                            istd.f32(), out.f32()),
          "normalise features");
  }

  void subsample(const PackedSubsampling& weights, const BatchLayout& feature_layout,
                 const TensorView& features, const BatchLayout& layout, float scale,
                 const TensorView& out) override {
    const auto& w = static_cast<const cuda::CudaSubsampling&>(weights);
    const int64_t most = std::max(conv2_.shape().elements(), least_conv2_floats);
    for (int begin = 0; begin < layout.lanes();) {
      const int end =
          lanes_within(most, begin, layout.lanes(), [&](int lane) { return layout.rows(lane) * w.flat(); });
      subsample_lanes(w, feature_layout, features, layout, begin, end, scale, out);
      begin = end;
    }
  }

  void embed_tokens(const TensorView& table, std::span<const int32_t> ids, const TensorView& positions,
                    std::span<const int32_t> at, const TensorView& out) override {
    assert(static_cast<int64_t>(ids.size()) == out.rows() && ids.size() == at.size());
    const auto [tokens, places] = staging_.stage(ids, at);
    check(api_.kernels.embed_tokens(queue(), table.f32(), tokens, positions.f32(), places, out.rows(),
                                    out.cols(), out.f32()),
          "embed tokens");
  }

  void linear(const PackedLinear& weights, const TensorView& x, const Epilogue& epilogue,
              const TensorView& y) override {
    const auto& w = static_cast<const cuda::CudaLinear&>(weights);
    multiply(w.call(cuda::matrix(x.f32(), x.cols()), x.rows(), epilogue, y.f32()));
  }

  void layer_norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, float eps,
                  const TensorView& y) override {
    const int64_t cols = gamma.shape.elements();
    check(api_.kernels.layer_norm(queue(), x.f32(), x.shape.elements() / cols, cols, gamma.f32(), beta.f32(),
                                  eps, y.f32()),
          "normalise rows");
  }

  void paged_attention(const BatchLayout& layout, const PagedKv& kv, const AttentionInputs& in,
                       const TensorView& out) override {
    arrays_.attend(layout, kv, in.first_position);
    const auto [row_frame, tiles, lanes, block_table] =
        staging_.stage(ints(arrays_.row_place), std::span<const cuda::AttentionTile>(arrays_.attention_tiles),
                       std::span<const cuda::AttentionLane>(arrays_.attention_lanes), kv.block_table);
    const cuda::AttentionCall call{.qkv = in.qkv.f32(),
                                   .bias_u = in.pos_bias_u.f32(),
                                   .bias_v = in.pos_bias_v.f32(),
                                   .positions = in.positions.f32(),
                                   .k = kv.k.f32(),
                                   .v = kv.v.f32(),
                                   .out = out.f32(),
                                   .row_frame = row_frame,
                                   .tiles = tiles,
                                   .lanes = lanes,
                                   .block_table = block_table,
                                   .rows = layout.rows(),
                                   .tile_count = static_cast<int64_t>(arrays_.attention_tiles.size()),
                                   .heads = static_cast<int32_t>(kv.k.shape[2]),
                                   .head_dim = static_cast<int32_t>(kv.k.shape[3]),
                                   .block_size = static_cast<int32_t>(kv.k.shape[1])};
    assert(call.head_dim <= cuda::max_attention_head_dim);
    check(api_.kernels.paged_attention(queue(), call), "attend");
  }

  void extend_with_context(const BatchLayout& layout, const TensorView& x, std::span<const int32_t> slots,
                           const TensorView& cache, const TensorView& extended) override {
    assert(static_cast<int>(slots.size()) == layout.lanes() && cache.shape[2] == x.cols());
    const auto [row_begin, lane_slots] = staging_.stage(layout.row_begin, slots);
    check(api_.kernels.extend_with_context(queue(), x.f32(), row_begin, lane_slots, layout.lanes(),
                                           static_cast<int>(cache.shape[1]), x.cols(), cache.f32(),
                                           extended.f32()),
          "extend rows with their context");
  }

  void conv_module(const BatchLayout& layout, const TensorView& extended, const ConvModuleWeights& weights,
                   float eps, const TensorView& out) override {
    const auto taps = static_cast<int32_t>(weights.depthwise_weight.cols());
    arrays_.tile(layout, taps);
    const auto [tiles] = staging_.stage(std::span<const cuda::ConvTile>(arrays_.tiles));
    const cuda::ConvModuleCall call{.tiles = tiles,
                                    .extended = extended.f32(),
                                    .weight = weights.depthwise_weight.f32(),
                                    .bias = weights.depthwise_bias.f32(),
                                    .norm_scale = weights.norm_scale.f32(),
                                    .norm_shift = weights.norm_shift.f32(),
                                    .out = out.f32(),
                                    .channels = out.cols(),
                                    .taps = taps,
                                    .folded = weights.folded_batch_norm ? 1 : 0,
                                    .eps = eps};
    check(api_.kernels.conv_module(queue(), call, static_cast<int>(arrays_.tiles.size())), "convolve");
  }

  void pick(const TensorView& x, std::span<const int32_t> columns, std::span<float> values) override {
    assert(static_cast<int64_t>(columns.size()) == x.rows() && columns.size() == values.size());
    if (values.empty()) return;
    // The columns, and behind them the values, in one place: a second one may take the first's.
    const cuda::Staging::Place at = staging_.place(2 * columns.size_bytes());
    std::copy_n(columns.data(), columns.size(), reinterpret_cast<int32_t*>(at.host));
    staging_.copy(at.device, at.host, columns.size_bytes());
    auto* const picked = reinterpret_cast<float*>(at.device + columns.size_bytes());
    check(api_.kernels.pick(queue(), x.f32(), reinterpret_cast<const int32_t*>(at.device), x.rows(), x.cols(),
                            picked),
          "pick values");
    staging_.copy(at.host, picked, values.size_bytes());
    staging_.wait();
    std::copy_n(reinterpret_cast<const float*>(at.host), values.size(), values.data());
  }

  void log_softmax_top_k(const TensorView& logits, int k, const TensorView& ids,
                         const TensorView& values) override {
    assert(k >= 1 && k <= logits.cols() && ids.cols() == k && values.cols() == k);
    check(api_.kernels.log_softmax_top_k(queue(), logits.f32(), logits.rows(),
                                         static_cast<int>(logits.cols()), k, ids.i32(), values.f32()),
          "take the softmax");
  }

  void index_select(const TensorView& tensor, int axis, std::span<const int32_t> indices,
                    const TensorView& out) override {
    assert(out.dtype == tensor.dtype && out.shape[axis] == static_cast<int64_t>(indices.size()));
    const auto [entries] = staging_.stage(indices);
    check(api_.kernels.index_select(queue(), indexed(tensor, axis), tensor.data, entries,
                                    static_cast<int>(indices.size()), out.data),
          "select entries");
  }

  void index_copy(const TensorView& values, int axis, std::span<const int32_t> indices,
                  const TensorView& tensor) override {
    assert(values.dtype == tensor.dtype && values.shape[axis] == static_cast<int64_t>(indices.size()));
    const auto [entries] = staging_.stage(indices);
    check(api_.kernels.index_copy(queue(), indexed(tensor, axis), values.data, entries,
                                  static_cast<int>(indices.size()), tensor.data),
          "copy entries");
  }

  void index_fill(const TensorView& tensor, int axis, std::span<const int32_t> indices,
                  double value) override {
    assert(value == 0 || tensor.dtype == DType::f32 || tensor.dtype == DType::i32);
    const auto [entries] = staging_.stage(indices);
    const uint32_t bits = tensor.dtype == DType::f32 ? std::bit_cast<uint32_t>(static_cast<float>(value))
                                                     : static_cast<uint32_t>(static_cast<int32_t>(value));
    check(api_.kernels.index_fill(queue(), indexed(tensor, axis), entries, static_cast<int>(indices.size()),
                                  bits, tensor.data),
          "fill entries");
  }

  void append_decoder_kv(const BatchLayout& layout, const DecoderKv& kv,
                         const TensorView& keys_values) override {
    append(layout, kv, keys_values.f32(), keys_values.cols());
  }

  void decoder_self_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& qkv,
                              const TensorView& out) override {
    const float* const keys_values = qkv.f32() + out.cols();
    append(layout, kv, keys_values, qkv.cols());
    attend(layout, kv, qkv, keys_values, true, out);
  }

  void decoder_cross_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& queries,
                               const TensorView& out) override {
    attend(layout, kv, queries, nullptr, false, out);
  }

  void repeat(int kind, const std::function<void()>& operations) override {
    const Range range(api_, "forward");
    Graph* const graph = kind > 0 && kind <= most_padded ? &graphs_[static_cast<size_t>(kind)] : nullptr;
    const bool repeated = graph != nullptr && repeat(*graph, operations);
    if (repeated) return staging_.count_repeat();
    operations();
    staging_.count_eager();
  }

  [[nodiscard]] int most_padded_lanes() const override { return most_padded; }

  void copy(const TensorView& from, const TensorView& to) override {
    assert(from.dtype == to.dtype && from.shape.elements() == to.shape.elements());
    staging_.copy(to.data, from.data, from.bytes());
  }

 private:
  void check(int error, const char* what) const { cuda::check(api_, error, what); }
  [[nodiscard]] cuda::Queue* queue() const { return staging_.queue(); }

  /// Work of a kind.
  struct Graph {
    bool seen = false;
    bool refused = false;  ///< the device cannot record it
    cuda::Graph* recorded = nullptr;
  };

  /// False where nothing was queued.
  bool repeat(Graph& graph, const std::function<void()>& operations) {
    // The first time shows what is to be made once, and not with every repetition.
    if (!std::exchange(graph.seen, true) || graph.refused || !staging_.begin_recorded()) return false;
    const bool is_new = graph.recorded == nullptr;
    check(api_.start_recording(queue(), is_new ? cuda::QueueMode::record : cuda::QueueMode::compare),
          "record its work");
    operations();
    // A graph takes memory of the device's own choice. Where there is none, work goes on without.
    if (is_new) graph.refused = api_.finish_recording(queue(), &graph.recorded) != 0;
    staging_.end_recorded();
    if (graph.refused) return false;
    int same = 0;
    check(api_.repeat(queue(), graph.recorded, &same), "repeat its work");
    if (same == 0) api_.release_graph(std::exchange(graph.recorded, nullptr));
    return same != 0;
  }

  void multiply(const cuda::GemmCall& call) {
    if (cuda::is_coded(call.type)) return multiply_codes(call);
    check(cuda::run(api_.kernels, queue(), call), "multiply matrices");
  }

  /// As many rows at a time as there is scratch memory for their codes.
  void multiply_codes(const cuda::GemmCall& call) {
    const int64_t words = cuda::words_of(call.type, call.in);
    const int64_t row_words = words + int64_t{sizeof(cuda::RowScale) / sizeof(uint32_t)};
    const int64_t most = code_words / row_words;
    for (int64_t first = 0; first < call.rows; first += most) {
      const int64_t rows = std::min(most, call.rows - first);
      auto* const codes = reinterpret_cast<uint32_t*>(floats(codes_, rows * row_words));
      cuda::GemmCall part = call;
      part.coded = {codes, reinterpret_cast<cuda::RowScale*>(codes + rows * words)};
      part.rows = rows;
      part.y += first * call.out;
      if (part.residual != nullptr) part.residual += first * call.out;
      check(api_.kernels.quantize_rows(queue(), {.x = call.x,
                                                 .out = part.coded,
                                                 .first_row = first,
                                                 .rows = rows,
                                                 .in = call.in,
                                                 .type = call.type}),
            "round rows");
      check(cuda::run(api_.kernels, queue(), part), "multiply matrices");
    }
  }

  static std::span<const int32_t> ints(const std::vector<int32_t>& values) { return values; }

  void finish_reading() {
    if (arriving_.empty()) return;
    staging_.wait();
    for (const Arriving& piece : arriving_) std::copy_n(piece.from, piece.bytes, piece.to);
    arriving_.clear();
  }

  /// The end of those lanes from `begin` on, at least one, whose `floats_of(lane)` fit `most`.
  template <class FloatsOf>
  static int lanes_within(int64_t most, int begin, int end, FloatsOf floats_of) {
    int64_t needed = floats_of(begin);
    int lane = begin + 1;
    while (lane < end && (needed += floats_of(lane)) <= most) ++lane;
    return lane;
  }

  /// The first convolution's scratch takes some lanes at a time, and the second's all of them.
  void subsample_lanes(const cuda::CudaSubsampling& w, const BatchLayout& feature_layout,
                       const TensorView& features, const BatchLayout& layout, int begin, int end, float scale,
                       const TensorView& out) {
    const auto rows_before = [&](int lane) {
      return layout.row_begin[static_cast<size_t>(lane)] - layout.row_begin[static_cast<size_t>(begin)];
    };
    const int64_t rows = rows_before(end);
    float* const conv2 = floats(conv2_, rows * w.flat());
    for (int first = begin; first < end;) {
      const int last = lanes_within(conv1_floats, first, end, [&](int lane) {
        return (2 * int64_t{layout.rows(lane)} + 1) * w.frame();
      });
      convolve_lanes(w, feature_layout, features, layout, first, last, conv2 + rows_before(first) * w.flat());
      first = last;
    }
    float* const y = out.f32() + layout.row_begin[static_cast<size_t>(begin)] * out.cols();
    multiply(w.out(conv2, rows, scale, y));
  }

  void convolve_lanes(const cuda::CudaSubsampling& w, const BatchLayout& feature_layout,
                      const TensorView& features, const BatchLayout& layout, int begin, int end,
                      float* conv2) {
    arrays_.subsample(feature_layout, layout, begin, end);
    const auto frames = static_cast<int64_t>(arrays_.feature_row.size());
    const auto rows = static_cast<int64_t>(arrays_.frame_begin.size());
    float* const conv1 = floats(conv1_, frames * w.frame());
    const auto [feature_row, frame_begin] =
        staging_.stage(ints(arrays_.feature_row), ints(arrays_.frame_begin));
    check(api_.kernels.first_convolution(queue(), w.conv1(features.f32(), feature_row, frames, conv1)),
          "subsample");
    multiply(w.conv2(conv1, frame_begin, rows, conv2));
  }

  void append(const BatchLayout& layout, const DecoderKv& kv, const float* keys_values, int64_t stride) {
    arrays_.append(layout, kv);
    const auto [row_token] = staging_.stage(ints(arrays_.row_place));
    check(api_.kernels.append_decoder_kv(queue(), cuda::pages(kv), keys_values, stride, row_token,
                                         layout.rows()),
          "store keys and values");
  }

  void attend(const BatchLayout& layout, const DecoderKv& kv, const TensorView& queries, const float* given,
              bool causal, const TensorView& out) {
    arrays_.attend(layout, kv, causal);
    const auto [row_lane, lanes, block_table] = staging_.stage(
        ints(arrays_.row_lane), std::span<const cuda::DecoderLane>(arrays_.decoder_lanes), kv.block_table);
    const cuda::DecoderPages pages = cuda::pages(kv);
    assert(pages.head_dim <= cuda::max_attention_head_dim);
    const cuda::DecoderAttentionCall call{
        .pages = pages,
        .queries = queries.f32(),
        .given = given,
        .out = out.f32(),
        .row_lane = row_lane,
        .lanes = lanes,
        .block_table = block_table,
        .rows = layout.rows(),
        .stride = queries.cols(),
        .sharing = static_cast<int32_t>(out.cols() / (int64_t{pages.heads} * pages.head_dim)),
        .causal = causal ? 1 : 0};
    check(api_.kernels.attend_decoder(queue(), call), "attend to tokens");
  }

  /// At least `count` floats of scratch that stay in `tensor`, which grows for a lane of unusual length.
  float* floats(Tensor& tensor, int64_t count) {
    if (tensor.shape().elements() < count || tensor.view().data == nullptr) {
      staging_.wait();  // for what still uses the smaller one
      tensor = allocate(DType::f32, {count});
    }
    return tensor.view().f32();
  }

  const cuda::PluginApi& api_;
  int device_;
  cuda::MatrixType type_;
  cuda::Staging staging_;
  std::string description_;
  cuda::BatchArrays arrays_;
  std::vector<cuda::FbankStream> streams_;
  /// What is on its way to host memory.
  struct Arriving {
    const std::byte* from;
    size_t bytes;
    std::byte* to;
  };
  std::vector<Arriving> arriving_;
  std::array<Graph, most_padded + 1> graphs_{};
  Tensor conv1_, conv2_;  ///< scratch of the subsampling
  Tensor codes_;          ///< scratch of products
};

}  // namespace

std::unique_ptr<Ops> make_cuda_ops(const cuda::PluginApi& api, int device, cuda::MatrixType type) {
  return std::make_unique<CudaOps>(api, device, type);
}

}  // namespace tutti
