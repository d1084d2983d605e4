#include "app/golden.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <regex>

#include "app/golden_decoder.hpp"
#include "config/result.hpp"
#include "decode/ctc_prefix_beam.hpp"
#include "engine/model_runner.hpp"
#include "gpu/device.hpp"

namespace tutti {

namespace {

// One way of running an utterance, as its golden names spell it.
struct Mode {
  std::string utterance;
  std::string prefix;  // "utt0.stream.c16_l4"
  int chunk = 0;       // encoder frames; 0 = the whole utterance at once
  int left = 0;        // chunks; -1 = unlimited
  int offset = 0;      // position of the first frame
  bool operator<(const Mode& other) const { return prefix < other.prefix; }
};

std::vector<Mode> modes_of(const TensorMap& golden) {
  static const std::regex streamed(R"((\w+)\.stream(?:_offset(\d+))?\.c(\d+)_l(\d+|all)\..*)");
  static const std::regex whole(R"((\w+)\.(?:full|debug)\..*)");
  std::vector<Mode> modes;
  for (const auto& [name, tensor] : golden) {
    std::smatch m;
    Mode mode;
    if (std::regex_match(name, m, streamed)) {
      mode = {.utterance = m[1],
              .prefix = name.substr(0, name.rfind('.')),
              .chunk = std::stoi(m[3]),
              .left = m[4] == "all" ? -1 : std::stoi(m[4]),
              .offset = m[2].matched ? std::stoi(m[2]) : 0};
    } else if (std::regex_match(name, m, whole)) {
      mode = {.utterance = m[1], .prefix = m[1].str() + ".full"};
    } else {
      continue;
    }
    if (modes.empty() || modes.back().prefix != mode.prefix) modes.push_back(mode);
  }
  std::sort(modes.begin(), modes.end());
  modes.erase(std::unique(modes.begin(), modes.end(),
                          [](const Mode& a, const Mode& b) { return a.prefix == b.prefix; }),
              modes.end());
  return modes;
}

constexpr int golden_beam = 10;

/// Runs one utterance in one mode as a stream of its own, with caches of its own.
class GoldenStream {
 public:
  GoldenStream(std::shared_ptr<const ConformerCtc> model, const Mode& mode, TensorView features,
               const Device& device, TensorMap& out)
      : mode_(mode),
        out_(out),
        chunk_(mode.chunk > 0 ? mode.chunk : whole_chunk(features)),
        geometry_(ConformerCtc::geometry(chunk_)),
        greedy_(model->spec().blank_id, static_cast<int>(features.rows())),
        greedy_state_(greedy_.create_state()),
        beam_(model->spec().blank_id, golden_beam, static_cast<int>(features.rows())),
        beam_state_(beam_.create_state()),
        // The runner's own decoder only says how many candidates a frame has.
        runner_(model, open_device(device), cache_limits(),
                std::make_unique<CtcPrefixBeamDecoder>(0, golden_beam, 1)),
        features_(runner_.ops().upload(features)),
        view_(runner_.view(0, 0)) {
    view_.allocate();
  }

  void run() {
    const Probe probe = [this](std::string_view name, const TensorView& rows) {
      out_[mode_.utterance + ".debug." + std::string(name)] = host_tensor(rows.shape, download(rows));
    };
    const TensorView all = features_;
    int64_t position = mode_.offset;
    for (int64_t start = 0; all.rows() - start >= geometry_.min_frames; start += geometry_.stride) {
      const auto frames = static_cast<int32_t>(std::min<int64_t>(geometry_.window, all.rows() - start));
      const ChunkLane lane{.features = all[start].f32(),
                           .feature_frames = frames,
                           .first_position = static_cast<int>(position)};
      const EncoderOutput out = runner_.forward({&lane, 1}, mode_.chunk == 0 ? &probe : nullptr);
      collect(out, start, frames);
      position += out.layout.rows();
      if (start == 0) store_caches("_after_chunk0");
    }
    store();
  }

 private:
  // A chunk whose window takes in every feature row, those of an incomplete last encoder frame included.
  static int whole_chunk(const TensorView& features) {
    return StreamingGeometry::encoder_frames(static_cast<int>(features.rows())) + 1;
  }

  [[nodiscard]] std::vector<float> download(const TensorView& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.shape.elements()));
    runner_.ops().download(tensor, values);
    return values;
  }
  void append(const TensorView& tensor, std::vector<float>& to) {
    const std::vector<float> values = download(tensor);
    to.insert(to.end(), values.begin(), values.end());
  }

  [[nodiscard]] CacheConfig cache_limits() const {
    CacheConfig cache;
    cache.chunk_size = chunk_;
    cache.num_left_chunks = mode_.left;
    cache.max_streams = 1;
    cache.max_batch_size = 1;
    if (mode_.left < 0) cache.max_num_blocks = cache.max_blocks_per_seq;
    return cache;
  }

  void collect(const EncoderOutput& out, int64_t start, int32_t frames) {
    const int rows = out.layout.rows();
    append(out.encoder_out, encoder_out_);
    append(out.log_probs, log_probs_);
    const std::vector<float> top_log_probs = download(out.top_log_probs);
    std::vector<int32_t> top_ids(top_log_probs.size());
    const Reading reading{out.top_ids, reinterpret_cast<std::byte*>(top_ids.data())};
    runner_.ops().read({&reading, 1});
    const CtcFrames best{.frames = rows,
                         .k = static_cast<int>(out.top_ids.cols()),
                         .ids = top_ids.data(),
                         .log_probs = top_log_probs.data()};
    greedy_.decode_chunk(*greedy_state_, best);
    beam_.decode_chunk(*beam_state_, best);
    starts_.push_back(static_cast<int32_t>(start));
    frames_.push_back(frames);
    rows_.push_back(rows);
  }

  void store() {
    const int64_t d = runner_.model().spec().output_size;
    const int64_t vocab = runner_.model().spec().vocab_size;
    const auto total = static_cast<int64_t>(encoder_out_.size()) / d;
    put("encoder_out", {total, d}, encoder_out_);
    put("ctc_log_probs", {total, vocab}, log_probs_);
    if (mode_.chunk == 0) return;
    put("chunk_feat_start", starts_);
    put("chunk_feat_frames", frames_);
    put("chunk_out_frames", rows_);
    store_caches("");
    if (mode_.offset == 0)
      store_transcripts(mode_.utterance + ".pipe" + mode_.prefix.substr(mode_.prefix.rfind('.')));
  }

  // Greedy times are the first frame of a token's run, prefix search times the last one on the best path.
  void store_transcripts(const std::string& pipe) {
    std::vector<int32_t> tokens;
    std::vector<int32_t> times;
    for (const CtcToken& token : greedy_.finalize_stream(*greedy_state_)) {
      tokens.push_back(token.id);
      times.push_back(token.first_frame);
    }
    out_[pipe + ".greedy_tokens"] = integers(tokens);
    out_[pipe + ".greedy_times"] = integers(times);

    std::vector<CtcHypothesis> nbest;
    nbest.resize(beam_.write_nbest(*beam_state_, nbest));
    size_t longest = 0;
    for (const CtcHypothesis& h : nbest) longest = std::max(longest, h.tokens.size());
    const auto rows = static_cast<int64_t>(nbest.size());
    std::vector<int32_t> nbest_tokens(nbest.size() * longest, -1);
    std::vector<int32_t> nbest_times(nbest.size() * longest, -1);
    std::vector<int32_t> lens;
    std::vector<float> scores;
    for (size_t i = 0; i < nbest.size(); ++i) {
      for (size_t j = 0; j < nbest[i].tokens.size(); ++j) {
        nbest_tokens[i * longest + j] = nbest[i].tokens[j].id;
        nbest_times[i * longest + j] = nbest[i].tokens[j].last_frame;
      }
      lens.push_back(static_cast<int32_t>(nbest[i].tokens.size()));
      scores.push_back(static_cast<float>(nbest[i].score));
    }
    const Shape table{rows, static_cast<int64_t>(longest)};
    out_[pipe + ".nbest_tokens"] = integers(nbest_tokens, table);
    out_[pipe + ".nbest_times_viterbi"] = integers(nbest_times, table);
    out_[pipe + ".nbest_lens"] = integers(lens);
    out_[pipe + ".nbest_scores"] = host_tensor({rows}, scores);
  }

  void store_caches(const std::string& suffix) {
    const CacheConfig& c = runner_.cache_config();
    const int64_t frames = runner_.attention().cached_frames(0);
    const int64_t begin = runner_.attention().cache_begin(0);
    const std::span<const int32_t> table = runner_.attention().block_table(0);
    std::vector<float> att;
    for (int layer = 0; layer < c.num_layers; ++layer) {
      for (int head = 0; head < c.n_kv_head; ++head) {
        for (int64_t t = begin; t < begin + frames; ++t) {
          const auto block =
              runner_.pool().get_kv_block_view(layer, table[static_cast<size_t>(t / c.block_size_frames)]);
          for (const TensorView& half : {block.k, block.v}) {
            append(half[t % c.block_size_frames][head], att);
          }
        }
      }
    }
    put("att_cache" + suffix, {c.num_layers, c.n_kv_head, frames, c.kv_last_dim()}, att);
    store_cnn_cache("cnn_cache" + suffix);
  }

  // Ours is (K-1, D) per layer, the reference's (D, K-1).
  void store_cnn_cache(const std::string& name) {
    const CacheConfig& c = runner_.cache_config();
    const int64_t context = c.cnn_cache_frames();
    const auto per_layer = static_cast<size_t>(context * c.hidden_dim);
    const Tensor cache = runner_.ops().allocate(DType::f32, {c.num_layers, 1, context, c.hidden_dim});
    runner_.cnn().read(0, cache);
    const std::vector<float> ours = download(cache);
    std::vector<float> theirs;
    for (int layer = 0; layer < c.num_layers; ++layer) {
      const float* rows = ours.data() + per_layer * static_cast<size_t>(layer);
      for (int channel = 0; channel < c.hidden_dim; ++channel) {
        for (int64_t t = 0; t < context; ++t) theirs.push_back(rows[t * c.hidden_dim + channel]);
      }
    }
    put(name, {c.num_layers, 1, c.hidden_dim, context}, theirs);
  }

  static Tensor integers(const std::vector<int32_t>& values) {
    return integers(values, {static_cast<int64_t>(values.size())});
  }
  static Tensor integers(const std::vector<int32_t>& values, const Shape& shape) {
    Tensor t = host_tensor(DType::i32, shape);
    std::copy(values.begin(), values.end(), t.view().i32());
    return t;
  }
  void put(const std::string& name, const Shape& shape, const std::vector<float>& values) {
    out_[mode_.prefix + "." + name] = host_tensor(shape, values);
  }
  void put(const std::string& name, const std::vector<int32_t>& values) {
    out_[mode_.prefix + "." + name] = integers(values);
  }

  const Mode& mode_;
  TensorMap& out_;
  int chunk_;
  StreamingGeometry geometry_;
  CtcGreedyDecoder greedy_;
  std::unique_ptr<CtcState> greedy_state_;
  CtcPrefixBeamDecoder beam_;
  std::unique_ptr<CtcState> beam_state_;
  ModelRunner runner_;
  Tensor features_;
  StreamCacheView view_;
  std::vector<float> encoder_out_;
  std::vector<float> log_probs_;
  std::vector<int32_t> starts_;
  std::vector<int32_t> frames_;
  std::vector<int32_t> rows_;
};

double max_difference(const TensorView& a, const TensorView& b) {
  if (a.dtype != b.dtype || !(a.shape == b.shape)) return std::numeric_limits<double>::infinity();
  double largest = 0;
  const auto value = [](const TensorView& t, int64_t i) {
    return t.dtype == DType::i32 ? static_cast<double>(t.i32()[i]) : static_cast<double>(t.f32()[i]);
  };
  for (int64_t i = 0; i < a.shape.elements(); ++i) {
    const double difference = std::abs(value(a, i) - value(b, i));
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, difference);
  }
  return largest;
}

bool is_input(const std::string& name) {
  static const std::regex inputs(R"(.*\.(feats|dec\.hyps|dec\.hyps_lens|resc\.ctc_scores))");
  return std::regex_match(name, inputs);
}

bool is_of_decoders(const std::string& name) {
  return name.find(".dec.") != std::string::npos || name.find(".resc.") != std::string::npos;
}

double difference(const std::string& name, const TensorMap& golden, const TensorMap& computed) {
  const TensorView expected = golden.at(name);
  const TensorView found = computed.at(name);
  const size_t decoder = name.find(".dec.");
  if (decoder == std::string::npos || !name.ends_with("_log_probs")) return max_difference(expected, found);
  return decoder_difference(expected, found, golden.at(name.substr(0, decoder) + ".dec.hyps_lens"));
}

double tolerance_of(const std::string& name, const TensorView& tensor) {
  if (tensor.dtype == DType::i32) return 0;
  if (name.ends_with("confidence")) return 1e-4;
  if (name.ends_with("score") || name.ends_with("scores")) return 1e-3;
  if (is_of_decoders(name)) return 2e-4;
  return name.ends_with("ctc_log_probs") ? 5e-5 : 1e-4;
}

}  // namespace

int golden_positions(const TensorMap& golden) {
  int64_t positions = 0;
  for (const Mode& mode : modes_of(golden)) {
    const auto features = golden.find(mode.utterance + ".feats");
    if (features != golden.end()) positions = std::max(positions, mode.offset + features->second.shape()[0]);
  }
  return static_cast<int>(positions);
}

TensorMap recompute_golden(std::shared_ptr<const ConformerCtc> model, const TensorMap& golden,
                           const Device& device) {
  TensorMap computed;
  for (const Mode& mode : modes_of(golden)) {
    const auto features = golden.find(mode.utterance + ".feats");
    if (features == golden.end()) throw SetupError(mode.utterance + ".feats is not in the golden file");
    GoldenStream(model, mode, features->second, device, computed).run();
  }
  recompute_decoders(*model, golden, device, computed);
  // A mode may compute more than was stored of it.
  std::erase_if(computed, [&golden](const auto& entry) { return !golden.contains(entry.first); });
  return computed;
}

bool GoldenComparison::passes() const {
  return missing.empty() &&
         std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.passes(); });
}

GoldenComparison compare_golden(const TensorMap& golden, const TensorMap& computed) {
  GoldenComparison comparison;
  const bool decoders =
      std::ranges::any_of(computed, [](const auto& entry) { return is_of_decoders(entry.first); });
  for (const auto& [name, expected] : golden) {
    if (is_input(name)) continue;
    if (computed.contains(name)) {
      comparison.rows.push_back({name, to_string(expected.shape()), difference(name, golden, computed),
                                 tolerance_of(name, expected)});
    } else if (name.ends_with(".nbest_times") || (is_of_decoders(name) && !decoders)) {
      comparison.skipped.push_back(name);
    } else {
      comparison.missing.push_back(name);
    }
  }
  return comparison;
}

}  // namespace tutti
