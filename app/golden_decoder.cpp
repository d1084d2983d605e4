#include "app/golden_decoder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "config/result.hpp"
#include "engine/rescorer.hpp"
#include "gpu/device.hpp"

namespace tutti {
namespace {

TensorView find(const TensorMap& tensors, const std::string& name) {
  const auto at = tensors.find(name);
  if (at == tensors.end()) throw SetupError(name + " is not in the golden file");
  return at->second;
}

// Token lists padded with -1, and how long each is.
std::vector<CtcHypothesis> read_hypotheses(const TensorView& tokens, const TensorView& lengths,
                                           const TensorView& scores) {
  std::vector<CtcHypothesis> hypotheses;
  for (int64_t i = 0; i < lengths.rows(); ++i) {
    CtcHypothesis& hypothesis = hypotheses.emplace_back();
    for (int j = 0; j < lengths.i32()[i]; ++j) hypothesis.tokens.push_back({.id = tokens[i].i32()[j]});
    hypothesis.score = scores.f32()[i];
  }
  return hypotheses;
}

Tensor one(float value) { return host_tensor({1}, std::array{value}); }
Tensor one(int32_t value) {
  Tensor tensor = host_tensor(DType::i32, {1});
  tensor.view().i32()[0] = value;
  return tensor;
}

/// One decoder and the caches of one hypothesis.
class SteppedDecoder {
 public:
  SteppedDecoder(const AttentionDecoder& decoder, const ConformerSpec& spec, const TensorView& encoder_out,
                 int max_tokens, const Device& device)
      : decoder_(decoder),
        ops_(open_device(device)),
        kv_({.num_layers = std::max(1, decoder.num_layers()),
             .n_kv_head = spec.decoder->attention_heads,
             .head_dim = spec.output_size / spec.decoder->attention_heads,
             .max_rows = 2,
             .max_row_tokens = std::max(static_cast<int>(encoder_out.rows()), max_tokens + 1)},
            *ops_),
        self_(kv_.pool(), 1, kv_.table_width()),
        source_(kv_.pool(), 1, kv_.table_width()),
        workspace_(decoder.make_workspace(*ops_, static_cast<int>(encoder_out.rows()))) {
    const auto frames = static_cast<int>(encoder_out.rows());
    kv_.allocate_row(source_row, frames, frames);
    kv_.fill_batch({&source_row, 1}, source_);
    decoder_.append_source(*ops_, workspace_, ops_->upload(encoder_out), source_);
    kv_.commit_step(source_row, frames);
    kv_.fill_batch({&source_row, 1}, source_);
  }

  /// Writes the log-probabilities after each of `inputs`: out (inputs, V).
  void run(std::span<const int32_t> inputs, const TensorView& out) {
    constexpr StreamId row = 0;
    kv_.allocate_row(row, static_cast<int>(inputs.size()));
    const std::array<int32_t, 2> rows{0, 1};
    for (int32_t j = 0; j < static_cast<int32_t>(inputs.size()); ++j) {
      const std::array<int, 1> count{1};
      kv_.prepare_step({&row, 1}, count);
      kv_.fill_batch({&row, 1}, self_);
      const TensorView log_probs = decoder_.forward(*ops_, workspace_,
                                                    {.hypotheses = {rows},
                                                     .sources = {rows},
                                                     .tokens = inputs.subspan(static_cast<size_t>(j), 1),
                                                     .positions = {&j, 1}},
                                                    self_, source_);
      kv_.commit_step(row, 1);
      ops_->download(log_probs, {out[j].f32(), static_cast<size_t>(out.cols())});
    }
    kv_.free_row(row);
  }

 private:
  static constexpr StreamId source_row = 1;
  const AttentionDecoder& decoder_;
  std::unique_ptr<Ops> ops_;
  DecoderKvCacheManager kv_;
  PagedDecoderKv self_;
  PagedDecoderKv source_;
  DecoderWorkspace workspace_;
};

/// Recomputes `U.dec.*` of one utterance.
void step_decoders(const ConformerCtc& model, const std::string& utterance, const TensorView& encoder_out,
                   const TensorMap& golden, const Device& device, TensorMap& computed) {
  const std::string under = utterance + ".dec.";
  const TensorView hyps = find(golden, under + "hyps");
  const TensorView lengths = find(golden, under + "hyps_lens");
  const DecoderSpec& spec = *model.spec().decoder;
  const AttentionDecoders& decoders = *model.decoders();
  const int64_t width = hyps.cols() + 1;
  for (const AttentionDecoder* decoder : {&decoders.left, decoders.right.get()}) {
    if (decoder == nullptr) continue;
    const bool reversed = decoder != &decoders.left;
    Tensor inputs = host_tensor(DType::i32, {hyps.rows(), width});
    Tensor log_probs = host_tensor(DType::f32, {hyps.rows(), width, model.spec().vocab_size});
    SteppedDecoder stepped(*decoder, model.spec(), encoder_out, static_cast<int>(hyps.cols()), device);
    for (int64_t i = 0; i < hyps.rows(); ++i) {
      const int length = lengths.i32()[i];
      int32_t* const input = inputs.view()[i].i32();
      std::fill_n(input, width, spec.eos_id);
      input[0] = spec.sos_id;
      std::copy_n(hyps[i].i32(), length, input + 1);
      if (reversed) std::reverse(input + 1, input + 1 + length);
      stepped.run({input, static_cast<size_t>(length) + 1}, log_probs.view()[i].slice(0, length + 1));
    }
    const std::string side = under + (reversed ? "right" : "left");
    computed[side + "_input"] = std::move(inputs);
    computed[side + "_log_probs"] = std::move(log_probs);
  }
}

/// Recomputes `under` + "scores" and so on.
void rescore(const ConformerCtc& model, const std::string& under, std::vector<CtcHypothesis> hypotheses,
             const TensorView& encoder_out, const RescoringWeights& weights, const Device& device,
             TensorMap& computed) {
  const std::unique_ptr<Ops> ops = open_device(device);
  const auto count = static_cast<int>(hypotheses.size());
  size_t longest = 1;
  for (const CtcHypothesis& h : hypotheses) longest = std::max(longest, h.tokens.size());
  Rescorer rescorer(model, *ops,
                    {.max_frames = static_cast<int>(encoder_out.rows()),
                     .max_tokens = static_cast<int>(longest),
                     .max_hypotheses = count},
                    weights);
  RescoredSegment segment = rescorer.make_segment();
  const Tensor frames = ops->upload(encoder_out);
  segment.encoder_out = frames;
  segment.hypotheses = std::move(hypotheses);
  segment.count = static_cast<size_t>(count);
  rescorer.run({&segment, 1});

  const auto sum = [](const std::vector<float>& log_probs) {
    return static_cast<float>(attention_score({log_probs, {}}, {}));
  };
  Tensor left = host_tensor(DType::f32, {count});
  Tensor right = host_tensor(DType::f32, {count});
  Tensor scores = host_tensor(DType::f32, {count});
  for (int i = 0; i < count; ++i) {
    const RescoredHypothesis& h = segment.scores[static_cast<size_t>(i)];
    left.view().f32()[i] = sum(h.left);
    right.view().f32()[i] = sum(h.right);
    scores.view().f32()[i] = static_cast<float>(h.total);
  }
  const std::vector<CtcToken>& best = segment.hypotheses[segment.best].tokens;
  std::vector<float> confidences;
  for (const CtcToken& token : best) confidences.push_back(std::exp(token.log_prob));
  computed[under + "left_scores"] = std::move(left);
  if (weights.reverse > 0) computed[under + "right_scores"] = std::move(right);
  computed[under + "scores"] = std::move(scores);
  computed[under + "best_index"] = one(static_cast<int32_t>(segment.best));
  computed[under + "best_score"] = one(static_cast<float>(segment.scores[segment.best].total));
  computed[under + "best_confidence"] = one(segment.confidence);
  computed[under + "best_tokens_confidence"] =
      host_tensor({static_cast<int64_t>(confidences.size())}, confidences);
}

/// A setting that results are stored for: "utt0.resc.cw05_rw03." or "utt0.pipe.c16_l4.resc.cw05_rw03.".
struct Setting {
  std::string under;
  std::string source;  // "utt0" or "utt0.pipe.c16_l4"
  RescoringWeights weights;
  bool operator<(const Setting& other) const { return under < other.under; }
};

std::set<Setting> settings_of(const TensorMap& golden) {
  static const std::regex pattern(R"(((.*)\.resc\.cw(\d\d)_rw(\d\d)\.)\w+)");
  std::set<Setting> settings;
  for (const auto& [name, tensor] : golden) {
    std::smatch m;
    if (!std::regex_match(name, m, pattern)) continue;
    // Two digits are units and tenths.
    const auto weight = [](const std::string& digits) { return static_cast<float>(std::stoi(digits)) / 10; };
    settings.insert({.under = m[1], .source = m[2], .weights = {weight(m[3]), weight(m[4])}});
  }
  return settings;
}

// What the hypotheses of an utterance were scored against.
TensorView encoder_out_of(const std::string& utterance, const TensorMap& golden, const TensorMap& computed) {
  const std::string whole = utterance + ".full.encoder_out";
  return find(computed, golden.contains(whole) ? whole : utterance + ".stream.c16_l4.encoder_out");
}

}  // namespace

void recompute_decoders(const ConformerCtc& model, const TensorMap& golden, const Device& device,
                        TensorMap& computed) {
  if (model.decoders() == nullptr) return;
  static const std::regex stepped(R"((\w+)\.dec\.hyps)");
  for (const auto& [name, tensor] : golden) {
    std::smatch m;
    if (!std::regex_match(name, m, stepped)) continue;
    step_decoders(model, m[1], encoder_out_of(m[1], golden, computed), golden, device, computed);
  }
  static const std::regex piped(R"((\w+)\.pipe\.(\w+))");
  for (const Setting& setting : settings_of(golden)) {
    std::smatch m;
    if (std::regex_match(setting.source, m, piped)) {
      const std::string nbest = setting.source + ".nbest_";
      rescore(model, setting.under,
              read_hypotheses(find(computed, nbest + "tokens"), find(computed, nbest + "lens"),
                              find(computed, nbest + "scores")),
              find(computed, m[1].str() + ".stream." + m[2].str() + ".encoder_out"), setting.weights, device,
              computed);
    } else {
      const std::string& utterance = setting.source;
      rescore(
          model, setting.under,
          read_hypotheses(find(golden, utterance + ".dec.hyps"), find(golden, utterance + ".dec.hyps_lens"),
                          find(golden, utterance + ".resc.ctc_scores")),
          encoder_out_of(utterance, golden, computed), setting.weights, device, computed);
    }
  }
}

int golden_hypothesis_tokens(const TensorMap& golden) {
  int64_t tokens = 0;
  for (const auto& [name, tensor] : golden) {
    if (name.ends_with(".dec.hyps") || name.ends_with(".nbest_tokens")) {
      tokens = std::max(tokens, tensor.shape()[1]);
    }
  }
  return static_cast<int>(tokens);
}

double decoder_difference(const TensorView& a, const TensorView& b, const TensorView& lengths) {
  if (a.dtype != b.dtype || !(a.shape == b.shape)) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (int64_t i = 0; i < a.rows(); ++i) {
    const int64_t values = (int64_t{lengths.i32()[i]} + 1) * a.shape[2];
    for (int64_t k = 0; k < values; ++k) {
      const double difference = std::abs(static_cast<double>(a[i].f32()[k]) - b[i].f32()[k]);
      if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
      largest = std::max(largest, difference);
    }
  }
  return largest;
}

}  // namespace tutti
