#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "tests/gpu/conformance.hpp"

namespace tutti {
namespace {

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::swish:
      return x / (1.0 + std::exp(-x));
    case Activation::none:
      break;
  }
  return x;
}

/// Every element against a double reference.
testing::AssertionResult matches_reference(const TensorView& weight, const TensorView& bias,
                                           const TensorView& x, Epilogue epilogue,
                                           const std::vector<float>& residual, const std::vector<float>& y,
                                           double tolerance) {
  const int64_t in = weight.cols();
  const int64_t out = weight.rows();
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t n = 0; n < out; ++n) {
      double sum = bias.data == nullptr ? 0.0 : bias.f32()[n];
      double magnitude = std::abs(sum);
      double largest_x = 0;
      double largest_weight = 0;
      for (int64_t k = 0; k < in; ++k) {
        const double value = x[r].f32()[k];
        const double factor = weight[n].f32()[k];
        sum += value * factor;
        magnitude += std::abs(value * factor);
        largest_x = std::max(largest_x, std::abs(value));
        largest_weight = std::max(largest_weight, std::abs(factor));
      }
      // Where types round to steps, these are shares of the largest values.
      magnitude += largest_x * largest_weight;
      const auto at = static_cast<size_t>(r * out + n);
      const double added = residual.empty() ? 0.0 : residual[at];
      const double expected = added + epilogue.scale * activate(epilogue.activation, sum);
      const double limit = tolerance * (std::abs(epilogue.scale) * magnitude + std::abs(added));
      if (!(std::abs(y[at] - expected) <= limit)) {
        return testing::AssertionFailure()
               << x.rows() << " rows, " << in << " to " << out << ", row " << r << ", column " << n << ": "
               << y[at] << ", expected " << expected << " +- " << limit;
      }
    }
  }
  return testing::AssertionSuccess();
}

class LinearConformance : public OpsConformance {
 protected:
  std::vector<float> linear(const PackedLinear& packed, const TensorView& x, const Epilogue& epilogue = {}) {
    const Tensor y = ops().allocate(DType::f32, {x.rows(), packed.out_features()});
    ops().linear(packed, device(x), epilogue, y);
    return host(y);
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, LinearConformance, testing::ValuesIn(backends({"linear"})), backend_name);

class LinearRowIndependence : public LinearConformance {};
INSTANTIATE_TEST_SUITE_P(Backends, LinearRowIndependence, testing::ValuesIn(serving_backends({"linear"})),
                         backend_name);

TEST_P(LinearConformance, MatchesADoubleReferenceForAnyShapeAndEpilogue) {
  for (uint64_t seed = 0; seed < (GetParam().slow ? 12U : 40U); ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const int in = random.pick({1, 3, 16, 31, 64, 144, 255, 256, 257, 512, 513, 600});
    const int out = random.pick({1, 5, 15, 16, 17, 33, 64, 80, 255, 256, 257, 300, 513});
    const int rows = seed % 10 == 0 ? random.between(71, 300) : random.between(1, 70);
    const Tensor weight = random.tensor({out, in});
    const Tensor bias = random.tensor({out});
    const bool biased = seed % 4 != 0;
    const auto packed = ops().pack_linear(weight, biased ? bias.view() : TensorView{});
    ASSERT_EQ(packed->in_features(), in);
    ASSERT_EQ(packed->out_features(), out);

    const Tensor x = random.tensor({rows, in});
    const Epilogue epilogue{.activation = static_cast<Activation>(seed % 3),
                            .scale = seed % 2 == 0 ? 1.0F : random.normal()};
    EXPECT_TRUE(matches_reference(weight, biased ? bias.view() : TensorView{}, x, epilogue, {},
                                  linear(*packed, x, epilogue), GetParam().tolerance));
  }
}

TEST_P(LinearConformance, AddsAResidualThatIsTheOutputOrAnotherTensor) {
  Random random(1);
  SCOPED_TRACE(random.trace());
  // Rows of 78 and of 77 are not aligned for four neighbours, or for two.
  for (const auto& [out, in_place] :
       {std::pair{77, false}, std::pair{77, true}, std::pair{78, true}, std::pair{80, false}}) {
    const Tensor weight = random.tensor({out, 300});
    const Tensor bias = random.tensor({out});
    const Tensor x = random.tensor({41, 300});
    const Tensor residual = random.tensor({41, out}, 10.0F);
    const auto packed = ops().pack_linear(weight, bias);
    const Tensor other = device(residual);
    const Tensor y = in_place ? device(residual) : ops().allocate(DType::f32, residual.shape());
    const Epilogue epilogue{
        .activation = Activation::swish, .scale = 0.5F, .residual = in_place ? y.view() : other.view()};
    ops().linear(*packed, device(x), epilogue, y);
    EXPECT_TRUE(matches_reference(weight, bias, x, epilogue, host(other), host(y), GetParam().tolerance));
  }
}

TEST_P(LinearConformance, SwishIsAccurateOverItsWholeRange) {
  constexpr int points = 4001;
  const Tensor weight = host_tensor({1, 1}, std::vector<float>{1.0F});
  const Tensor x = host_tensor(DType::f32, {points, 1});
  for (int i = 0; i < points; ++i) x.view().f32()[i] = static_cast<float>(i - points / 2) * 0.075F;
  const auto packed = ops().pack_linear(weight, {});
  const std::vector<float> y = linear(*packed, x, {.activation = Activation::swish});
  for (int i = 0; i < points; ++i) {
    const float at = x.view().f32()[i];
    const double expected = activate(Activation::swish, at);
    const double limit =
        0.3 * GetParam().tolerance * std::abs(expected) + 1e-35;  // far below, it need not vanish as fast
    ASSERT_NEAR(y[static_cast<size_t>(i)], expected, limit) << "swish(" << at << ")";
  }
}

TEST_P(LinearRowIndependence, GivesARowTheSameBitsAmongAnyNumberOfRows) {
  struct Case {
    int in;
    int out;
    int step;  // of the number of rows: narrow ones take every number, across a block of either side
  };
  for (const auto& [in, out, step] :
       {Case{264, 24, 1}, Case{24, 264, 1}, Case{256, 256, 5}, Case{600, 270, 11}}) {
    Random random(static_cast<uint64_t>(in));
    SCOPED_TRACE(random.trace());
    const auto packed = ops().pack_linear(random.tensor({out, in}), random.tensor({out}));
    const Tensor x = random.tensor({most_rows, in});
    const Epilogue epilogue{.activation = Activation::swish};
    const std::vector<float> all = linear(*packed, x, epilogue);
    for (int rows = 1; rows < most_rows; rows += GetParam().slow ? 20 + step : step) {
      const std::vector<float> some = linear(*packed, x.view().slice(0, rows), epilogue);
      ASSERT_TRUE(same_bits(some, std::span(all).first(some.size())))
          << rows << " rows, " << in << " to " << out;
    }
  }
}

TEST_P(LinearRowIndependence, GivesARowTheSameBitsAtAnyPlace) {
  constexpr int in = 300;
  constexpr int out = 77;
  constexpr int most = 300;
  Random random(2);
  SCOPED_TRACE(random.trace());
  const auto packed = ops().pack_linear(random.tensor({out, in}), random.tensor({out}));
  const Tensor x = random.tensor({most, in});
  const std::vector<float> expected = linear(*packed, x);
  for (int trial = GetParam().slow ? 4 : 20; trial > 0; --trial) {
    const std::vector<int32_t> order = random.permutation(most);
    const int rows = random.between(1, most);
    const Tensor shuffled = host_tensor(DType::f32, {rows, in});
    for (int r = 0; r < rows; ++r) {
      std::copy_n(x.view()[order[static_cast<size_t>(r)]].f32(), in, shuffled.view()[r].f32());
    }
    const std::vector<float> y = linear(*packed, shuffled);
    for (int r = 0; r < rows; ++r) {
      ASSERT_TRUE(same_bits(row_of(y, r, out), row_of(expected, order[static_cast<size_t>(r)], out)))
          << rows << " rows, place " << r;
    }
  }
}

TEST_P(LinearConformance, KeepsNonFiniteValuesInTheirOwnRowAndVisible) {
  Random random(3);
  const auto packed = ops().pack_linear(random.tensor({20, 64}), random.tensor({20}));
  const Tensor x = random.tensor({33, 64});
  constexpr int64_t spoilt = 17;
  x.view()[spoilt].f32()[5] = std::numeric_limits<float>::quiet_NaN();
  for (const Activation activation : {Activation::none, Activation::relu, Activation::swish}) {
    const std::vector<float> y = linear(*packed, x, {.activation = activation});
    for (int64_t r = 0; r < 33; ++r) {
      for (const float value : row_of(y, r, 20)) EXPECT_EQ(std::isnan(value), r == spoilt) << "row " << r;
    }
  }
}

TEST_P(LinearConformance, LetsTwoThreadsShareWhatOneHasPacked) {
  Random random(4);
  const auto packed = ops().pack_linear(random.tensor({300, 300}), random.tensor({300}));
  const Tensor x = random.tensor({48, 300});
  const std::vector<float> expected = linear(*packed, x);
  std::vector<std::vector<float>> results(2);
  std::vector<std::thread> owners;
  for (std::vector<float>& result : results) {
    owners.emplace_back([&] {
      const std::unique_ptr<Ops> mine = GetParam().make();
      const Tensor y = mine->allocate(DType::f32, {48, 300});
      const Tensor input = mine->upload(x);
      for (int repeat = GetParam().slow ? 5 : 50; repeat > 0; --repeat) mine->linear(*packed, input, {}, y);
      result.resize(48 * 300);
      mine->download(y, result);
    });
  }
  for (std::thread& owner : owners) owner.join();
  for (const std::vector<float>& result : results) EXPECT_TRUE(same_bits(result, expected));
}

}  // namespace
}  // namespace tutti
