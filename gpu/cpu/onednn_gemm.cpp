#include "gpu/cpu/onednn_gemm.hpp"

#include <algorithm>
#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "gpu/cpu/epilogue.hpp"
#include "gpu/cpu/library_scope.hpp"
#include "gpu/cpu/single_threaded.hpp"

namespace tutti::cpu {
namespace {

using Desc = dnnl::memory::desc;
constexpr auto f32 = dnnl::memory::data_type::f32;
constexpr auto row_major = dnnl::memory::format_tag::ab;

constexpr std::array<int, 3> ladder{64, 32, 16};
constexpr int max_features = static_cast<int>(GemmScratch::floats) / ladder.front();

/// Primitives and streams of one process must agree on their engine.
const dnnl::engine& engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

}  // namespace

struct OnednnStream {
  dnnl::stream stream{engine()};
  AlignedBuffer scratchpad{GemmScratch::floats};
};

namespace {

/// The product for one number of rows.
struct Rung {
  int rows;
  Desc input;
  Desc output;
  Desc scratchpad;
  dnnl::matmul primitive;
};

class OnednnGemm final : public PackedGemm {
 public:
  explicit OnednnGemm(const GemmWeights& w)
      : PackedGemm(w.in_features, w.out_features), bias_(static_cast<size_t>(w.out_features)) {
    if (w.bias == nullptr) {
      std::ranges::fill(bias_.span(), 0.0F);
    } else {
      std::copy_n(w.bias, w.out_features, bias_.data());
    }
    const SingleThreaded scope;
    Desc layout({w.in_features, w.out_features}, f32, dnnl::memory::format_tag::any);
    for (const int rows : ladder) rungs_.push_back(make_rung(rows, layout));
    pack(w, layout);
  }

  void run(const GemmInput& x, int64_t rows, const GemmOutput& out, GemmScratch& scratch) const override;

  [[nodiscard]] bool fits_scratch() const {
    return std::ranges::all_of(rungs_, [](const Rung& rung) {
      return rung.scratchpad.get_size() <= GemmScratch::floats * sizeof(float);
    });
  }

 private:
  /// The first rung chooses the layout of the weights, the others take it over.
  Rung make_rung(int rows, Desc& layout) const {
    const Desc input({rows, in_features()}, f32, row_major);
    const Desc output({rows, out_features()}, f32, row_major);
    // The library's own scratchpad belongs to the thread that makes a primitive, not to those that run it.
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::primitive_desc plan({input, layout, output}, attributes, engine());
    layout = plan.weights_desc();
    return {rows, input, output, plan.scratchpad_desc(), dnnl::matmul(plan)};
  }

  void pack(const GemmWeights& w, const Desc& layout) {
    // (out, in) row-major is (in, out) column-major.
    const Desc given({w.in_features, w.out_features}, f32, dnnl::memory::format_tag::ba);
    dnnl::memory from(given, engine(), const_cast<float*>(w.weight));
    weights_ = dnnl::memory(layout, engine());
    dnnl::stream stream(engine());
    dnnl::reorder(from, weights_).execute(stream, from, weights_);
    stream.wait();
  }

  const float* input_rows(const GemmInput& x, int64_t first, int count, int padded, float* buffer) const;
  void multiply(const Rung& rung, const float* input, GemmScratch& scratch) const;

  AlignedBuffer bias_;
  std::vector<Rung> rungs_;
  dnnl::memory weights_;
};

/// Rows [first, first + count) in one piece: where they lie, or gathered and followed by zeros.
const float* OnednnGemm::input_rows(const GemmInput& x, int64_t first, int count, int padded,
                                    float* buffer) const {
  const int k = in_features();
  if (count == padded && x.is_matrix(k)) return x.row(first);
  for (int r = 0; r < count; ++r) x.gather(first + r, 0, k, buffer + static_cast<ptrdiff_t>(r) * k);
  std::fill_n(buffer + static_cast<ptrdiff_t>(count) * k, static_cast<ptrdiff_t>(padded - count) * k, 0.0F);
  return buffer;
}

void OnednnGemm::multiply(const Rung& rung, const float* input, GemmScratch& scratch) const {
  const LibraryScope inside;
  const SingleThreaded scope;
  const dnnl::memory source(rung.input, engine(), const_cast<float*>(input));
  const dnnl::memory sums(rung.output, engine(), scratch.accumulators.data());
  const dnnl::memory scratchpad(rung.scratchpad, engine(), scratch.onednn->scratchpad.data());
  const std::array<dnnl_exec_arg_t, 4> arguments{{{DNNL_ARG_SRC, source.get()},
                                                  {DNNL_ARG_WEIGHTS, weights_.get()},
                                                  {DNNL_ARG_DST, sums.get()},
                                                  {DNNL_ARG_SCRATCHPAD, scratchpad.get()}}};
  dnnl::error::wrap_c_api(dnnl_primitive_execute(rung.primitive.get(), scratch.onednn->stream.get(),
                                                 static_cast<int>(arguments.size()), arguments.data()),
                          "a matrix product failed");
}

void OnednnGemm::run(const GemmInput& x, int64_t rows, const GemmOutput& out, GemmScratch& scratch) const {
  for (int64_t first = 0; first < rows;) {
    const auto fits = [&](const Rung& rung) { return rung.rows <= rows - first; };
    const auto found = std::ranges::find_if(rungs_, fits);
    const Rung& rung = found == rungs_.end() ? rungs_.back() : *found;
    const int count = static_cast<int>(std::min<int64_t>(rung.rows, rows - first));
    multiply(rung, input_rows(x, first, count, rung.rows, scratch.input.data()), scratch);
    apply_epilogue({.acc = scratch.accumulators.data(),
                    .acc_stride = out_features(),
                    .first_row = first,
                    .first_column = 0,
                    .rows = count,
                    .columns = out_features()},
                   bias_.data(), out_features(), out);
    first += count;
  }
}

}  // namespace

GemmScratch::GemmScratch() : onednn(std::make_unique<OnednnStream>()) {}
GemmScratch::~GemmScratch() = default;

std::unique_ptr<const PackedGemm> pack_onednn_gemm(const GemmWeights& weights) {
  if (std::max(weights.in_features, weights.out_features) > max_features) return nullptr;
  auto gemm = std::make_unique<OnednnGemm>(weights);
  return gemm->fits_scratch() ? std::move(gemm) : nullptr;
}

std::string onednn_version() {
  const dnnl_version_t& v = *dnnl_version();
  return "oneDNN " + std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch);
}

}  // namespace tutti::cpu
