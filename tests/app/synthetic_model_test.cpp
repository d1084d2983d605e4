#include "app/synthetic_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "app/gemm_baseline.hpp"
#include "app/logprob_check.hpp"
#include "config/result.hpp"
#include "engine/engine.hpp"
#include "gpu/cpu/cpu_ops.hpp"

namespace tutti {
namespace {

TEST(ModelSize, ReadsBlocksWidthUnitsHeadsTokens) {
  const ConformerSpec spec = parse_model_size("3x128x512h8v700");
  EXPECT_EQ(spec.num_blocks, 3);
  EXPECT_EQ(spec.output_size, 128);
  EXPECT_EQ(spec.linear_units, 512);
  EXPECT_EQ(spec.attention_heads, 8);
  EXPECT_EQ(spec.vocab_size, 700);
}

TEST(ModelSize, RefusesWhatIsNoSize) {
  for (const char* size :
       {"", "12", "12x256x2048h4", "12x256x2048h4v5000x", "12x256x2048h3v5000", "0x256x2048h4v5000",
        "12x-256x2048h4v5000", "12x256x2048h4v1", "99999999999x256x2048h4v5000"}) {
    EXPECT_THROW((void)parse_model_size(size), SetupError) << size;
  }
}

TEST(SyntheticModel, HasExactlyTheTensorsOfAConformer) {
  const auto ops = make_cpu_ops();
  const ConformerCtc model(synthetic_checkpoint(parse_model_size("2x64x128h2v50")), *ops, 200);
  EXPECT_TRUE(model.unused_weights().empty());
}

TEST(SyntheticModel, HasTheDecodersThatItsSpecAsksFor) {
  const auto ops = make_cpu_ops();
  ConformerSpec spec = parse_model_size("2x64x128h2v50");
  for (const bool bidirectional : {false, true}) {
    spec.decoder = DecoderSpec{.bidirectional = bidirectional, .num_blocks = 2, .reverse_num_blocks = 1};
    const ConformerCtc model(synthetic_checkpoint(spec), *ops, 200, 16);
    EXPECT_TRUE(model.unused_weights().empty());
    EXPECT_EQ(model.decoders()->right != nullptr, bidirectional);
  }
}

TEST(SyntheticModel, AgreesWithTheReferencesOfTheCheck) {
  const ConformerSpec spec = parse_model_size("2x64x128h2v50");
  const LogprobCheck check(synthetic_checkpoint(spec), 3);
  const auto ops = make_cpu_ops();
  const auto model = std::make_shared<const ConformerCtc>(synthetic_checkpoint(spec), *ops,
                                                          required_positions(EngineConfig{}));
  EXPECT_LT(check.max_difference(model, make_cpu_ops()), 1e-4);
}

TEST(LogprobCheck, SeesAModelThatIsNotTheSame) {
  const ConformerSpec spec = parse_model_size("2x64x128h2v50");
  const LogprobCheck check(synthetic_checkpoint(spec), 1);
  Checkpoint other = synthetic_checkpoint(spec);
  other.weights.take("encoder.encoders.0.feed_forward.w_1.bias").f32()[0] += 1;
  const auto ops = make_cpu_ops();
  const auto model =
      std::make_shared<const ConformerCtc>(std::move(other), *ops, required_positions(EngineConfig{}));
  EXPECT_GT(check.max_difference(model, make_cpu_ops()), 1e-3);
}

TEST(GemmBaseline, CountsTheMultiplicationsOfAModel) {
  // One block of width 8, 16 units, 2 heads, 5 tokens: a chunk of 16 rows, 19 mel bins after subsampling.
  ConformerSpec spec = parse_model_size("1x8x16h2v5");
  const double rows = 16;
  const double block = rows * (4 * 8 * 16 + 3 * 8 * 8 + 2 * 8 * 8) + (rows + 14) * 8 * 16;
  const double subsampling = rows * 19 * 72 * 8 + rows * 19 * 8 * 8;
  EXPECT_DOUBLE_EQ(flops(tick_products(spec, 16, 1)), 2 * (block + subsampling + rows * 8 * 5));
}

TEST(GemmBaseline, RunsTheMultiplicationsOfAModel) {
  GemmBaseline gemms(parse_model_size("1x8x16h2v5"), 16, 2);
  gemms.choose_kernels(1);
  EXPECT_GT(gemms.run(), 0);
}

TEST(PseudoSpeech, StaysInRangeAndDiffersBySeed) {
  const auto one = pseudo_speech(16000, 16000, 1);
  const auto two = pseudo_speech(16000, 16000, 2);
  EXPECT_EQ(one, pseudo_speech(16000, 16000, 1));
  EXPECT_NE(one, two);
  EXPECT_TRUE(std::ranges::all_of(one, [](float x) { return x > -1 && x < 1; }));
}

}  // namespace
}  // namespace tutti
