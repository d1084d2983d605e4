#include "app/gemm_baseline.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

#include "app/percentiles.hpp"
#include "gpu/cpu/gemm_packer.hpp"
#include "gpu/cpu/level.hpp"
#include "gpu/cpu/row_test.hpp"
#include "gpu/cpu/single_threaded.hpp"
#include "model/conformer.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;
using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

const dnnl::engine& engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

/// Types of the operands and of the sums.
struct OnednnTypes {
  Type input;
  Type weight;
  Type output;
};
constexpr OnednnTypes floats{Type::f32, Type::f32, Type::f32};
constexpr OnednnTypes integers{Type::u8, Type::s8, Type::s32};

/// Weights in the layout that oneDNN chooses for this number of rows.
class OnednnProduct {
 public:
  OnednnProduct(const OnednnTypes& types, const float* weight, int rows, int in, int out)
      : plan_({{{rows, in}, types.input, Tag::ab},
               {{in, out}, types.weight, Tag::any},
               {{rows, out}, types.output, Tag::ab}},
              engine()),
        primitive_(plan_),
        stream_(engine()),
        weights_(plan_.weights_desc(), engine()) {
    dnnl::memory given({{in, out}, Type::f32, Tag::ba}, engine(), const_cast<float*>(weight));
    dnnl::reorder(given, weights_).execute(stream_, given, weights_);
  }

  void run(const float* x, float* y) {
    primitive_.execute(stream_, {{DNNL_ARG_SRC, {plan_.src_desc(), engine(), const_cast<float*>(x)}},
                                 {DNNL_ARG_WEIGHTS, weights_},
                                 {DNNL_ARG_DST, {plan_.dst_desc(), engine(), y}}});
    stream_.wait();
  }

 private:
  dnnl::matmul::primitive_desc plan_;
  dnnl::matmul primitive_;
  dnnl::stream stream_;
  dnnl::memory weights_;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Bins that are left by each of the subsampling's convolutions.
struct ConvolvedBins {
  explicit ConvolvedBins(const ConformerSpec& spec)
      : first((spec.fbank.num_mel_bins - 1) / 2), second((first - 1) / 2) {}
  int first, second;
};

}  // namespace

std::vector<TickProduct> tick_products(const ConformerSpec& spec, int chunk_size, int lanes) {
  const int d = spec.output_size;
  const int rows = lanes * chunk_size;
  const int bins = ConvolvedBins(spec).second;
  std::vector<TickProduct> products;
  // The second convolution goes lane by lane.
  products.push_back(
      {.rows = chunk_size * bins, .in = 9 * d, .out = d, .repeats = lanes, .is_convolution = true});
  products.push_back({rows, bins * d, d});
  for (int i = 0; i < spec.num_blocks; ++i) {
    products.push_back({rows, d, spec.linear_units});
    products.push_back({rows, spec.linear_units, d});
    products.push_back({rows, d, 3 * d});
    products.push_back({rows, d, d});
    products.push_back({rows + lanes * (spec.cnn_module_kernel - 1), d, 2 * d});
    products.push_back({rows, d, d});
    products.push_back({rows, d, spec.linear_units});
    products.push_back({rows, spec.linear_units, d});
  }
  products.push_back({rows, d, spec.vocab_size});
  return products;
}

double flops(const std::vector<TickProduct>& products) {
  double sum = 0;
  for (const TickProduct& p : products) sum += 2.0 * p.repeats * p.rows * p.in * p.out;
  return sum;
}

/// One weight matrix under both kernels. Each time it runs over activations that its lane's first convolution
/// has just written, where it is the second convolution.
class GemmBaseline::Product {
 public:
  using Shape = std::tuple<int, int, int>;

  Product(WeightType type, const TickProduct& p, const float* weight, const cpu::GemmInput& convolution)
      : p_(p),
        convolution_(p.is_convolution ? convolution : cpu::GemmInput{}),
        panel_(cpu::GemmPacker(cpu::GemmChoice::panel, type).pack({weight, nullptr, p.in, p.out})),
        onednn_(type == WeightType::int8 ? integers : floats, weight, p.rows, p.in, p.out) {}

  [[nodiscard]] Shape shape() const { return {p_.rows, p_.in, p_.out}; }
  void use_onednn(bool onednn) { use_onednn_ = onednn; }

  void run(const float* x, float* y, cpu::GemmScratch& scratch) {
    cpu::GemmInput input = p_.is_convolution ? convolution_ : cpu::GemmInput::matrix(x, p_.in);
    input.base = x;
    for (int i = 0; i < p_.repeats; ++i) {
      if (use_onednn_) {
        onednn_.run(x, y);
      } else {
        panel_->run(input, p_.rows, {.y = y}, scratch);
      }
    }
  }

 private:
  TickProduct p_;
  cpu::GemmInput convolution_;
  std::unique_ptr<const cpu::PackedGemm> panel_;
  OnednnProduct onednn_;
  bool use_onednn_ = false;
};

GemmBaseline::GemmBaseline(const ConformerSpec& spec, int chunk_size, int lanes, WeightType type) {
  const cpu::SingleThreaded scope;
  const int d = spec.output_size;
  const ConvolvedBins bins(spec);
  // Every weight matrix has D rows or D columns.
  const auto widest =
      static_cast<size_t>(std::max({spec.linear_units, 3 * d, bins.second * d, 9 * d, spec.vocab_size}));
  const std::vector<float> weight = cpu::arbitrary_values(widest * static_cast<size_t>(d));
  // As in the subsampling: 3 runs of 3 D values of a channels-last activation.
  const cpu::GemmInput convolution{.base = nullptr,
                                   .row_stride = 2 * d,
                                   .group_rows = bins.second,
                                   .group_stride = int64_t{2} * bins.first * d,
                                   .run_length = 3 * d,
                                   .run_stride = int64_t{bins.first} * d};
  for (const TickProduct& product : tick_products(spec, chunk_size, lanes)) {
    products_.push_back(std::make_unique<Product>(type, product, weight.data(), convolution));
  }
  const size_t extended = static_cast<size_t>(lanes * (chunk_size + spec.cnn_module_kernel - 1));
  const auto convolved = static_cast<size_t>(chunk_size * bins.second);
  input_ = cpu::arbitrary_values(std::max(extended * widest, convolved * static_cast<size_t>(9 * d)));
  output_.resize(std::max(extended * widest, convolved * static_cast<size_t>(d)));
}

GemmBaseline::~GemmBaseline() = default;

std::vector<double> GemmBaseline::time_each(bool onednn) {
  std::vector<double> times;
  for (const auto& product : products_) {
    product->use_onednn(onednn);
    const auto start = Clock::now();
    product->run(input_.data(), output_.data(), scratch_);
    times.push_back(seconds_since(start));
  }
  return times;
}

void GemmBaseline::choose_kernels(int rounds) {
  if (cpu::level_is_lowered()) return;  // to our own
  const cpu::SingleThreaded scope;
  std::map<Product::Shape, std::array<std::vector<double>, 2>> times;
  for (int round = 0; round < rounds; ++round) {
    for (const bool onednn : {false, true}) {
      const std::vector<double> taken = time_each(onednn);
      for (size_t i = 0; i < taken.size(); ++i) times[products_[i]->shape()][onednn].push_back(taken[i]);
    }
  }
  for (const auto& product : products_) {
    const auto& [panel, onednn] = times[product->shape()];
    product->use_onednn(percentile(onednn, 50) < percentile(panel, 50));
  }
}

double GemmBaseline::run() {
  const cpu::SingleThreaded scope;
  const auto start = Clock::now();
  for (const auto& product : products_) product->run(input_.data(), output_.data(), scratch_);
  return seconds_since(start);
}

}  // namespace tutti
