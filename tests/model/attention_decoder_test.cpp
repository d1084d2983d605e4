#include "model/attention_decoder.hpp"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <numeric>
#include <string>

#include "cache/decoder_kv.hpp"
#include "cache/dense_decoder_kv.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "model/conformer.hpp"
#include "model/model_loader.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace tutti {
namespace {

constexpr int frames = 50;
constexpr int beam = 4;

const ConformerCtc& model() {
  static const auto ops = make_cpu_ops();
  static const ConformerCtc loaded(load_model(std::filesystem::path(TUTTI_TEST_DATA) / "conformer-u2pp-tiny"),
                                   *ops, 16, 64);
  return loaded;
}

DecoderKvConfig kv_config(DType format) {
  const int heads = model().spec().decoder->attention_heads;
  return {.num_layers = model().decoders()->left.num_layers(),
          .n_kv_head = heads,
          .head_dim = model().spec().output_size / heads,
          .page_tokens = 4,
          .max_rows = beam,
          .max_row_tokens = frames,
          .format = format};
}

/// The decoder over the frames of one utterance, whose keys and values lie in a row of pages.
class Decoding {
 public:
  explicit Decoding(DType format)
      : rows_(kv_config(format), *ops_),
        source_(rows_.pool(), 1, rows_.table_width()),
        row_(rows_.pool(), 1, rows_.table_width()),
        workspace_(decoder_.make_workspace(*ops_, frames)) {
    Random random(1);
    rows_.allocate_row(source_row, frames, frames);
    rows_.fill_batch(std::array{source_row}, source_);
    decoder_.append_source(*ops_, workspace_, random.tensor({frames, model().spec().output_size}), source_);
    rows_.commit_step(source_row, frames);
    rows_.fill_batch(std::array{source_row}, source_);
  }

  [[nodiscard]] Ops& ops() { return *ops_; }

  /// Log-probabilities after each lane's next token, all of them at `position`.
  TensorView step(const std::vector<int32_t>& tokens, int position, const DecoderKvBatch& self) {
    std::vector<int32_t> row_begin(tokens.size() + 1);
    std::iota(row_begin.begin(), row_begin.end(), 0);
    const std::vector<int32_t> source_begin{0, row_begin.back()};
    const std::vector<int32_t> positions(tokens.size(), position);
    return decoder_.forward(
        *ops_, workspace_,
        {.hypotheses = {row_begin}, .sources = {source_begin}, .tokens = tokens, .positions = positions},
        self, source_);
  }

  /// The same after a hypothesis that is decoded alone, in pages.
  TensorView alone(const std::vector<int32_t>& hypothesis) {
    constexpr std::array one{1};
    TensorView log_probs;
    rows_.allocate_row(hypothesis_row, frames);
    for (size_t at = 0; at < hypothesis.size(); ++at) {
      rows_.prepare_step(std::array{hypothesis_row}, one);
      rows_.fill_batch(std::array{hypothesis_row}, row_);
      log_probs = step({hypothesis[at]}, static_cast<int>(at), row_);
      rows_.commit_step(hypothesis_row, 1);
    }
    rows_.free_row(hypothesis_row);
    return log_probs;
  }

 private:
  static constexpr StreamId source_row = 1;
  static constexpr StreamId hypothesis_row = 2;

  std::unique_ptr<Ops> ops_ = make_cpu_ops();
  const AttentionDecoder& decoder_ = model().decoders()->left;
  DecoderKvCacheManager rows_;
  PagedDecoderKv source_;
  PagedDecoderKv row_;
  DecoderWorkspace workspace_;
};

class DecoderBeam : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Formats, DecoderBeam, testing::Values(DType::f32, DType::bf16, DType::f8e4m3),
                         [](const auto& format) {
                           return std::string(decoder_kv_format_name(format.param));
                         });

TEST_P(DecoderBeam, SelectedInDenseBuffersScoresTheBitsOfItsHypothesesAloneInPages) {
  Decoding decoding(GetParam());
  Random random(2);
  SCOPED_TRACE(random.trace());
  const int vocabulary = model().spec().vocab_size;
  DenseDecoderKv group(kv_config(GetParam()), decoding.ops());
  group.reset(1);
  std::vector<std::vector<int32_t>> hypotheses{{model().spec().decoder->sos_id}};
  for (int position = 0; position < 20; ++position) {
    std::vector<int32_t> last;
    for (const auto& hypothesis : hypotheses) last.push_back(hypothesis.back());
    const std::vector<int> ones(last.size(), 1);
    group.prepare_step(ones);
    const TensorView log_probs = decoding.step(last, position, group);
    group.commit_step(ones);
    if (position % 5 == 4) {
      const auto beam_scores = host_tensor(log_probs.shape, Random::values(log_probs));
      for (size_t lane = 0; lane < hypotheses.size(); ++lane) {
        EXPECT_TRUE(same_bits(Random::values(beam_scores.view()[static_cast<int64_t>(lane)]),
                              Random::values(decoding.alone(hypotheses[lane])[0])))
            << "lane " << lane << " after " << position + 1 << " tokens";
      }
    }
    std::vector<int32_t> chosen(static_cast<size_t>(random.between(1, beam)));
    std::vector<std::vector<int32_t>> next;
    for (int32_t& lane : chosen) {
      lane = random.between(0, static_cast<int>(hypotheses.size()) - 1);
      next.push_back(hypotheses[static_cast<size_t>(lane)]);
      next.back().push_back(random.between(0, vocabulary - 1));
    }
    group.select(chosen);
    hypotheses = next;
  }
}

}  // namespace
}  // namespace tutti
