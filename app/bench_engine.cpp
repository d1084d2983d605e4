#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/bench.hpp"
#include "app/cpu_level_option.hpp"
#include "app/gemm_baseline.hpp"
#include "app/logprob_check.hpp"
#include "app/machine_memory.hpp"
#include "app/percentiles.hpp"
#include "app/synthetic_model.hpp"
#include "app/timed_ops.hpp"
#include "app/treadmill.hpp"
#include "config/json_writer.hpp"
#include "config/result.hpp"
#include "engine/engine.hpp"
#include "gpu/cpu/level.hpp"
#include "gpu/device.hpp"
#include "model/model_loader.hpp"

namespace tutti {

namespace {

struct Options {
  std::string synthetic = "12x256x2048h4v5000";
  std::string model;
  std::string weights = "fp32";
  std::string decoder = "greedy";
  std::string device = "cpu";
  std::string cpu_level = EngineConfig{}.cpu_level;
  std::vector<int> batch{8};
  int seconds = 10;
  int ticks = 1;
  int snapshot_chunks = 0;
  bool json = false;
  bool breakdown = false;
};

/// Milliseconds per tick, one entry a tick.
struct Samples {
  std::vector<double> tick;
  std::vector<double> features;
  std::vector<double> decode;
  std::vector<double> gemm;
};

/// Of one width.
struct Report {
  double ticks = 0;
  double tick_ms_p50 = 0;
  double tick_ms_p99 = 0;
  double streams_per_core = 0;
  double ms_per_stream_chunk = 0;
  double gemm_ratio = 0;
  double gemm_gflops = 0;
  double features_ms = 0;
  double decode_ms = 0;
  double max_logprob_diff = 0;
  double rss_mb = 0;
  std::optional<double> rescore_ms;
  std::optional<double> waits_per_tick;  // of a GPU
  double allocations_per_tick = 0;
  double device_ms = 0;
  std::optional<double> snapshots_per_second;
  double snapshot_mb_per_second = 0;
  double postponed_per_tick = 0;
};

Checkpoint load(const Options& options) {
  if (!options.model.empty()) return load_model(options.model);
  ConformerSpec spec = parse_model_size(options.synthetic);
  if (options.decoder == "rescore") {
    // What U2++ models usually have.
    spec.decoder = DecoderSpec{.bidirectional = true,
                               .num_blocks = 3,
                               .reverse_num_blocks = 3,
                               .attention_heads = spec.attention_heads,
                               .linear_units = spec.linear_units,
                               .sos_id = spec.vocab_size - 1,
                               .eos_id = spec.vocab_size - 1,
                               .reverse_weight = 0.3F};
  }
  return synthetic_checkpoint(spec);
}

/// For so many seconds and ticks, ticks and their bare matrix products in turn, so that whatever else the
/// machine does meets both. A GPU's products are not compared with the CPU's.
Samples measure(Engine& engine, Treadmill& treadmill, GemmBaseline* gemms, const Options& options) {
  Samples samples;
  const auto end = Clock::now() + std::chrono::seconds(options.seconds);
  while (Clock::now() < end || samples.tick.size() < static_cast<size_t>(options.ticks)) {
    const EngineStats before = engine.stats();
    samples.tick.push_back(treadmill.tick());
    samples.features.push_back(1000 * (engine.stats().feature_seconds - before.feature_seconds));
    samples.decode.push_back(1000 * (engine.stats().decode_seconds - before.decode_seconds));
    samples.gemm.push_back(gemms != nullptr ? 1000 * gemms->run() : samples.tick.back());
  }
  return samples;
}

Report summarize(const Samples& samples, double gemm_flops, int chunk_ms, int batch) {
  const double tick = percentile(samples.tick, 50);
  const double gemm = percentile(samples.gemm, 50);
  Report report;
  report.ticks = static_cast<double>(samples.tick.size());
  report.tick_ms_p50 = tick;
  report.tick_ms_p99 = percentile(samples.tick, 99);
  report.ms_per_stream_chunk = tick / batch;
  report.streams_per_core = chunk_ms / report.ms_per_stream_chunk;
  report.gemm_ratio = tick / gemm;
  report.gemm_gflops = gemm_flops / (gemm * 1e6);
  report.features_ms = percentile(samples.features, 50) / batch;
  report.decode_ms = percentile(samples.decode, 50) / batch;
  return report;
}

using Entries = std::vector<std::pair<std::string_view, double>>;

Entries entries(const Report& r, int batch) {
  Entries entries{{"streams_per_core", r.streams_per_core},
                  {"ms_per_stream_chunk", r.ms_per_stream_chunk},
                  {"gemm_ratio", r.gemm_ratio},
                  {"gemm_gflops", r.gemm_gflops},
                  {"features_ms", r.features_ms},
                  {"decode_ms", r.decode_ms},
                  {"max_logprob_diff", r.max_logprob_diff},
                  {"rss_mb", r.rss_mb},
                  {"tick_ms_p50", r.tick_ms_p50},
                  {"tick_ms_p99", r.tick_ms_p99},
                  {"ticks", r.ticks},
                  {"batch", batch}};
  if (r.rescore_ms) entries.emplace_back("rescore_ms", *r.rescore_ms);
  if (r.waits_per_tick) {
    entries.emplace_back("waits_per_tick", *r.waits_per_tick);
    entries.emplace_back("allocations_per_tick", r.allocations_per_tick);
    entries.emplace_back("device_ms", r.device_ms);
  }
  if (r.snapshots_per_second) {
    entries.emplace_back("snapshots_per_second", *r.snapshots_per_second);
    entries.emplace_back("snapshot_mb_per_second", r.snapshot_mb_per_second);
    entries.emplace_back("postponed_per_tick", r.postponed_per_tick);
  }
  return entries;
}

/// Where the time of ticks goes.
struct Breakdown {
  std::vector<TimedOps::Times> operations;
  double ticks = 0;         ///< that were timed
  double operation_ms = 0;  ///< from a tick's first operation to the end of its last, in all
  double tick_ms = 0;       ///< in all; of a GPU, which is given other work first, operation_ms
  double decode_ms = 0;     ///< on the host
};

void print_breakdown(const Breakdown& b, int batch) {
  if (b.ticks == 0) {
    fmt::print("operations were not timed: the device was always done before it was asked for the next\n");
    return;
  }
  const double chunks = b.ticks * batch;
  const auto row = [&](std::string_view name, double ms) {
    fmt::print("{:<20} {:7.3f} ms per stream-chunk {:5.1f} %\n", name, ms / chunks, 100 * ms / b.tick_ms);
  };
  double rest = b.tick_ms - b.decode_ms;
  for (const TimedOps::Times& times : b.operations) {
    row(times.name, 1000 * times.seconds);
    rest -= 1000 * times.seconds;
  }
  if (b.decode_ms > 0) row("decode", b.decode_ms);
  row("everything else", rest);
}

void write_breakdown(JsonWriter& json, const Breakdown& b) {
  const auto per_tick = [&](double sum) { return static_cast<float>(sum / std::max(b.ticks, 1.0)); };
  json.key("timed_ticks").number(static_cast<float>(b.ticks));
  json.key("operations_ms").number(per_tick(b.operation_ms));
  json.key("operations").begin_array();
  for (const TimedOps::Times& times : b.operations) {
    json.begin_object().key("name").string(times.name);
    json.key("calls").number(per_tick(static_cast<double>(times.calls)));
    json.key("ms").number(per_tick(1000 * times.seconds));
    json.key("gflop").number(per_tick(times.work.flops / 1e9));
    json.key("mb").number(per_tick(times.work.bytes / 1e6)).end_object();
  }
  json.end_array();
}

/// A model, and engines of several widths with it.
class EngineBench {
 public:
  explicit EngineBench(const Options& options)
      : options_(options),
        widest_(std::ranges::max(options.batch)),
        device_(select_devices(options.device, 1, note_).front()),
        weights_(parse_weight_type(options.weights)) {
    const std::unique_ptr<Ops> ops = open_device(device_, weights_);
    Checkpoint checkpoint = load(options);
    const LogprobCheck check(checkpoint, on_cpu() ? widest_ : std::min(widest_, most_checked));
    const EngineConfig config = config_of(widest_);
    model_ = std::make_shared<const ConformerCtc>(std::move(checkpoint), *ops, required_positions(config),
                                                  required_hypothesis_tokens(config));
    difference_ = check.max_difference(model_, open_device(device_));
    if (!std::isfinite(difference_)) throw std::logic_error("a log-probability is not a number");
    waveforms_ = make_waveforms(model_->spec().fbank.sample_rate, std::min(widest_, most_speakers));
  }

  Report measure_width(int batch) const {
    std::unique_ptr<Ops> ops = open_device(device_, weights_);
    std::cerr << fmt::format("tutti: {}, batch {}\n", ops->description(), batch);
    Engine engine(model_, std::move(ops), config_of(batch));
    Treadmill treadmill(engine, batch, options_.snapshot_chunks, waveforms_);
    for (int i = 0; i < Treadmill::warm_up_ticks(engine); ++i) (void)treadmill.tick();
    const double rss = static_cast<double>(resident_memory()) / (1 << 20);

    const int chunk_size = engine.config().chunk_size;
    std::optional<GemmBaseline> gemms;
    if (on_cpu()) gemms.emplace(model_->spec(), chunk_size, batch, weights_).choose_kernels(5);
    const EngineStats before = engine.stats();
    const Treadmill::Snapshots before_snapshots = treadmill.snapshots();
    const auto begin = Clock::now();
    const Samples samples = measure(engine, treadmill, gemms ? &*gemms : nullptr, options_);
    const double lasted = std::chrono::duration<double>(Clock::now() - begin).count();
    Report report =
        summarize(samples, flops(tick_products(model_->spec(), chunk_size, batch)), engine.chunk_ms(), batch);
    report.max_logprob_diff = difference_;
    report.rss_mb = rss;
    if (const int64_t segments = engine.stats().rescored_segments; segments > 0) {
      report.rescore_ms = 1000 * engine.stats().rescore_seconds / static_cast<double>(segments);
    }
    if (options_.snapshot_chunks > 0) {
      const Treadmill::Snapshots& after = treadmill.snapshots();
      report.snapshots_per_second = static_cast<double>(after.taken - before_snapshots.taken) / lasted;
      report.snapshot_mb_per_second =
          static_cast<double>(after.bytes - before_snapshots.bytes) / lasted / 1e6;
      report.postponed_per_tick =
          static_cast<double>(after.postponed - before_snapshots.postponed) / report.ticks;
    }
    if (!on_cpu()) {
      const DeviceUse use = engine.stats().device;
      report.waits_per_tick = static_cast<double>(use.waits - before.device.waits) / report.ticks;
      report.allocations_per_tick =
          static_cast<double>(use.allocations - before.device.allocations) / report.ticks;
      report.device_ms = 1000 * (use.seconds - before.device.seconds) / report.ticks;
    }
    return report;
  }

  /// Of other ticks, each of whose operations is timed.
  Breakdown break_down(int batch) const {
    auto timed = std::make_unique<TimedOps>(open_device(device_, weights_), model_->spec().fbank, weights_);
    TimedOps& times = *timed;
    Engine engine(model_, std::move(timed), config_of(batch));
    Treadmill treadmill(engine, batch, options_.snapshot_chunks, waveforms_);
    const auto tick = [&] {
      const double ms = treadmill.tick();
      times.collect();
      return ms;
    };
    for (int i = 0; i < Treadmill::warm_up_ticks(engine); ++i) (void)tick();
    times.clear();
    Breakdown breakdown;
    const double decoded = engine.stats().decode_seconds;
    const auto end = Clock::now() + std::chrono::seconds(options_.seconds);
    // Those of a GPU that ran out of work are not timed.
    for (int i = 0; Clock::now() < end || (times.collected() < least_timed && i < most_tries); ++i) {
      breakdown.tick_ms += tick();
    }
    breakdown.operations = times.times();
    breakdown.ticks = static_cast<double>(times.collected());
    breakdown.operation_ms = 1000 * times.seconds();
    if (on_cpu()) {
      breakdown.decode_ms = 1000 * (engine.stats().decode_seconds - decoded);
    } else {
      breakdown.tick_ms = breakdown.operation_ms;
    }
    return breakdown;
  }

 private:
  /// Of a GPU's lanes: the reference is computed on one core.
  static constexpr int most_checked = 4;
  static constexpr int most_speakers = 16;
  static constexpr int least_timed = 10;
  static constexpr int most_tries = 40;

  [[nodiscard]] bool on_cpu() const { return device_.kind == Device::Kind::cpu; }
  [[nodiscard]] EngineConfig config_of(int batch) const {
    EngineConfig config;
    config.device = options_.device;
    config.decoder = options_.decoder;
    config.max_streams = batch;
    config.max_batch_size = batch;
    config.max_tick_ms = 10000;  // the batch is what is asked for, whatever it costs
    return config;
  }

  const Options& options_;
  int widest_;
  std::string note_;
  Device device_;
  WeightType weights_;
  std::shared_ptr<const ConformerCtc> model_;
  double difference_ = 0;
  Waveforms waveforms_;
};

int bench(const Options& options) {
  cpu::use_level(options.cpu_level);
  const EngineBench bench(options);
  const std::pair<std::string_view, std::string_view> label{"cpu_level", cpu::level()};
  for (const int batch : options.batch) {
    const Entries figures = entries(bench.measure_width(batch), batch);
    std::optional<Breakdown> breakdown;
    if (options.breakdown) breakdown = bench.break_down(batch);
    if (!options.json) {
      print_figures({&label, 1}, figures, false);
      if (breakdown) print_breakdown(*breakdown, batch);
      continue;
    }
    JsonWriter json;
    json.begin_object();
    write_figures(json, {&label, 1}, figures);
    if (breakdown) write_breakdown(json, *breakdown);
    fmt::print("{}\n", std::move(json.end_object()).take());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

void add_bench_engine(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command =
      app.add_subcommand("engine", "One owner's recognizer by itself: no sockets, no actors");
  command->footer(
      "Every stream always has its next chunk ready, so each tick is a full batch. Figures:\n"
      "  cpu_level            instruction set of the kernels; the others are medians over the ticks of:\n"
      "  streams_per_core     a chunk's duration / ms_per_stream_chunk: real-time streams one core carries\n"
      "  ms_per_stream_chunk  a tick / batch, features and decoding included\n"
      "  gemm_ratio           a tick / its matrix products alone, in turn with the ticks: all layers' "
      "weights in\n"
      "                       order, for each shape the faster of a oneDNN primitive and our own kernel\n"
      "  gemm_gflops          of those products\n"
      "  features_ms          of ms_per_stream_chunk; decode_ms likewise\n"
      "  max_logprob_diff     from fp32 results of each stream alone, and from a double-precision CTC layer\n"
      "  rss_mb               of a process with this model, before the comparison's own memory\n"
      "  tick_ms_p50          of whole ticks; tick_ms_p99 likewise; ticks: of how many\n"
      "  waits_per_tick       on a GPU: times that the host waited for it; allocations_per_tick likewise. "
      "There\n"
      "                       gemm_gflops are the products' over the whole tick, and device_ms is a tick "
      "by the\n"
      "                       GPU's own clock\n"
      "  snapshots_per_second with --snapshots: copies taken; snapshot_mb_per_second: what they hold;\n"
      "                       postponed_per_tick: those that had to wait for others to leave the GPU\n"
      "  rescore_ms           with --decoder rescore: mean of rescoring a segment of 10 s");
  auto* const synthetic =
      command->add_option("--synthetic", options->synthetic, "Size of a model with arbitrary weights")
          ->capture_default_str();
  command->add_option("--model", options->model, "A model directory instead")->excludes(synthetic);
  command->add_option("--weights", options->weights, "How weight matrices are held")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16", "int8", "fp8"}))
      ->capture_default_str();
  command->add_option("--decoder", options->decoder, "How tokens are chosen")
      ->check(CLI::IsMember({"greedy", "prefix", "rescore"}))
      ->capture_default_str();
  command->add_option("--device", options->device, "What computes: cpu or cuda:N")->capture_default_str();
  command->add_option("--batch", options->batch, "Streams in a tick; 1,8,64 measures one after another")
      ->check(CLI::Range(1, 512))
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "How long to measure")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command->add_option("--ticks", options->ticks, "And at least so many ticks")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command
      ->add_option("--snapshots", options->snapshot_chunks,
                   "Copy a stream's state after every so many chunks, as a server does; 0 is never")
      ->check(CLI::Range(0, 10000))
      ->capture_default_str();
  add_cpu_level(*command, options->cpu_level);
  command->add_flag("--json", options->json, "A JSON object for each batch");
  command->add_flag("--breakdown", options->breakdown,
                    "Also where the time of ticks goes, of others than those that are measured");
  command->callback([options, &exit_code] { exit_code = bench(*options); });
}

}  // namespace tutti
