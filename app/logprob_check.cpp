#include "app/logprob_check.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/synthetic_model.hpp"
#include "config/engine_config.hpp"
#include "engine/engine.hpp"
#include "engine/model_runner.hpp"
#include "gpu/cpu/cpu_ops.hpp"

namespace tutti {
namespace {

const EngineConfig& usual() {
  static const EngineConfig config;
  return config;
}

// One more than fills the history.
int chunks() { return usual().num_left_chunks + 2; }

StreamingGeometry geometry() { return ConformerCtc::geometry(usual().chunk_size); }

}  // namespace

/// Of a chunk of a batch, in host memory.
struct LogprobCheck::Output {
  std::vector<float> encoder_out;  // (rows, D)
  std::vector<float> log_probs;    // (rows, V)
};

/// Streams of one batch, chunk by chunk.
class LogprobCheck::Batch {
 public:
  Batch(std::shared_ptr<const ConformerCtc> model, std::unique_ptr<Ops> ops, int lanes)
      : runner_(model, std::move(ops), limits(lanes),
                std::make_unique<CtcGreedyDecoder>(model->spec().blank_id, usual().max_segment_tokens)) {
    for (int lane = 0; lane < lanes; ++lane) runner_.view(lane, lane).allocate();
  }

  /// Chunk `chunk` of the streams with these features.
  Output forward(int chunk, std::span<const std::vector<float>> features) {
    const int64_t mel = runner_.model().spec().fbank.num_mel_bins;
    std::vector<Tensor> windows;
    std::vector<ChunkLane> lanes;
    for (size_t i = 0; i < features.size(); ++i) {
      const Shape window{geometry().window, mel};
      windows.push_back(runner_.ops().upload(
          host_tensor(window, std::span(features[i])
                                  .subspan(static_cast<size_t>(chunk * geometry().stride * mel),
                                           static_cast<size_t>(window.elements())))));
      lanes.push_back({.id = static_cast<StreamId>(i),
                       .slot = static_cast<int>(i),
                       .features = windows.back().view().f32(),
                       .feature_frames = geometry().window,
                       .first_position = chunk * usual().chunk_size});
    }
    const EncoderOutput out = runner_.forward(lanes);
    return {copy_of(out.encoder_out), copy_of(out.log_probs)};
  }

 private:
  std::vector<float> copy_of(const TensorView& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.shape.elements()));
    runner_.ops().download(tensor, values);
    return values;
  }
  static CacheConfig limits(int lanes) {
    CacheConfig cache;
    cache.chunk_size = usual().chunk_size;
    cache.num_left_chunks = usual().num_left_chunks;
    cache.max_streams = lanes;
    cache.max_batch_size = lanes;
    return cache;
  }

  ModelRunner runner_;
};

namespace {

std::vector<float> values_of(const TensorView& tensor) {
  return {tensor.f32(), tensor.f32() + tensor.shape.elements()};
}

double largest_difference(std::span<const float> a, const float* b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    // A value that is not a number is no agreement.
    largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
  }
  return largest;
}

std::vector<float> features_of(const ConformerCtc& model, uint32_t seed, Ops& ops) {
  const int frames = geometry().stride * (chunks() - 1) + geometry().window;
  const FbankOptions& options = model.spec().fbank;
  const std::vector<float> samples = pseudo_speech(
      options.sample_rate, int64_t{frames - 1} * options.frame_shift() + options.frame_length(), seed);
  std::vector<float> features(static_cast<size_t>(frames) * static_cast<size_t>(options.num_mel_bins));
  const FbankJob job{.samples = samples.data(), .frames = frames, .out = features.data()};
  ops.fbank(model.fbank(), {&job, 1});
  return features;
}

}  // namespace

LogprobCheck::LogprobCheck(Checkpoint reference, int lanes)
    : lanes_(lanes),
      ctc_weight_(values_of(reference.weights.take("ctc.ctc_lo.weight"))),
      ctc_bias_(values_of(reference.weights.take("ctc.ctc_lo.bias"))) {
  auto ops = make_cpu_ops(cpu::GemmChoice::panel);
  const auto model =
      std::make_shared<const ConformerCtc>(std::move(reference), *ops, required_positions(usual()));
  for (int lane = 0; lane < lanes; ++lane) {
    features_.push_back(features_of(*model, static_cast<uint32_t>(lane), *ops));
  }
  log_probs_.resize(static_cast<size_t>(chunks() * lanes));
  for (int lane = 0; lane < lanes; ++lane) {
    Batch alone(model, make_cpu_ops(cpu::GemmChoice::panel), 1);
    for (int chunk = 0; chunk < chunks(); ++chunk) {
      log_probs_[static_cast<size_t>(chunk * lanes + lane)] =
          alone.forward(chunk, std::span(features_).subspan(static_cast<size_t>(lane), 1)).log_probs;
    }
  }
}

double LogprobCheck::max_difference(std::shared_ptr<const ConformerCtc> model,
                                    std::unique_ptr<Ops> ops) const {
  Batch together(std::move(model), std::move(ops), lanes_);
  double largest = 0;
  Output out;
  for (int chunk = 0; chunk < chunks(); ++chunk) {
    out = together.forward(chunk, features_);
    const float* computed = out.log_probs.data();
    for (int lane = 0; lane < lanes_; ++lane) {
      const std::vector<float>& expected = log_probs_[static_cast<size_t>(chunk * lanes_ + lane)];
      largest = std::max(largest, largest_difference(expected, computed));
      computed += expected.size();
    }
  }
  return std::max(largest, difference_from_plain_loops(out));
}

double LogprobCheck::difference_from_plain_loops(const Output& out) const {
  const auto width = static_cast<int64_t>(ctc_weight_.size() / ctc_bias_.size());
  const auto vocabulary = static_cast<int64_t>(ctc_bias_.size());
  std::vector<double> logits(ctc_bias_.size());
  std::vector<float> expected(logits.size());
  double largest = 0;
  for (int64_t row = 0; row * width < static_cast<int64_t>(out.encoder_out.size()); ++row) {
    const float* const x = out.encoder_out.data() + row * width;
    for (size_t v = 0; v < logits.size(); ++v) {
      const float* const w = ctc_weight_.data() + static_cast<int64_t>(v) * width;
      double sum = ctc_bias_[v];
      for (int64_t i = 0; i < width; ++i) sum += static_cast<double>(w[i]) * static_cast<double>(x[i]);
      logits[v] = sum;
    }
    const double highest = *std::ranges::max_element(logits);
    double total = 0;
    for (const double logit : logits) total += std::exp(logit - highest);
    for (size_t v = 0; v < logits.size(); ++v) {
      expected[v] = static_cast<float>(logits[v] - highest - std::log(total));
    }
    largest = std::max(largest, largest_difference(expected, out.log_probs.data() + row * vocabulary));
  }
  return largest;
}

}  // namespace tutti
