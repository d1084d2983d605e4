#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
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
  int batch = 8;
  int seconds = 10;
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

struct Report {
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

/// Of snapshots.
struct Snapshots {
  int64_t taken = 0;
  int64_t bytes = 0;
  int64_t postponed = 0;
};

/// An engine with a full batch of streams that always have the next chunk ready, and whose state is copied
/// after every so many chunks; 0 is never.
class Treadmill {
 public:
  Treadmill(Engine& engine, int streams, int snapshot_chunks)
      : engine_(engine), rate_(engine.sample_rate()), snapshot_chunks_(snapshot_chunks) {
    constexpr int loop_seconds = 20;
    // Without an end there would be nothing to rescore.
    const int segment_ms = engine.config().decoder == "rescore" ? 10000 : 0;
    for (int i = 0; i < streams; ++i) {
      const auto key = engine.admit({.endpoint = {0, 0, segment_ms}});
      if (!key) throw SetupError(key.error().message);
      streams_.push_back(
          {*key, pseudo_speech(rate_, int64_t{loop_seconds} * rate_, static_cast<uint32_t>(i)), 0, i});
    }
    // A window needs more than its stride; from here on a chunk of audio completes one.
    feed(rate_ / 20);
  }

  /// One chunk of every stream; returns the tick's milliseconds.
  double tick() {
    feed(int64_t{engine_.chunk_ms()} * rate_ / 1000);
    const auto start = Clock::now();
    const int64_t lanes = engine_.stats().lanes;
    (void)engine_.tick();
    if (snapshot_chunks_ > 0) take_snapshots();
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    if (engine_.stats().lanes - lanes != static_cast<int64_t>(streams_.size())) {
      throw std::logic_error("a tick did not run every stream");
    }
    if (engine_.stats().failed_streams > 0) throw std::logic_error("a stream ended by an error");
    return ms;
  }

  [[nodiscard]] const Snapshots& snapshots() const { return snapshots_; }

 private:
  struct Fed {
    StreamKey key;
    std::vector<float> audio;
    size_t position;
    int chunks;  // since its last snapshot
  };

  /// As an owner does it. Streams begin their turns at different times.
  void take_snapshots() {
    for (Fed& stream : streams_) {
      if (++stream.chunks < snapshot_chunks_) continue;
      if (engine_.begin_snapshot(stream.key)) {
        stream.chunks = 0;
      } else {
        ++snapshots_.postponed;
      }
    }
    while (const auto taken = engine_.next_snapshot()) {
      const StreamSnapshot::Past& past = *taken->snapshot.past;
      ++snapshots_.taken;
      for (const auto* part :
           {&past.keys_values, &past.convolution, &past.features, &past.rescorable_frames}) {
        snapshots_.bytes += static_cast<int64_t>(part->size() * sizeof(float));
      }
    }
  }

  void feed(int64_t samples) {
    for (Fed& stream : streams_) {
      for (auto left = static_cast<size_t>(samples); left > 0;) {
        const size_t count = std::min(left, stream.audio.size() - stream.position);
        const auto fed = engine_.feed(stream.key, std::span(stream.audio).subspan(stream.position, count));
        if (!fed) throw std::logic_error(fed.error().message);
        stream.position = (stream.position + count) % stream.audio.size();
        left -= count;
      }
    }
  }

  Engine& engine_;
  int rate_;
  int snapshot_chunks_;
  std::vector<Fed> streams_;
  Snapshots snapshots_;
};

/// Ticks and their bare matrix products in turn, so that whatever else the machine does meets both.
/// A GPU's products are not compared with the CPU's.
Samples measure(Engine& engine, Treadmill& treadmill, GemmBaseline* gemms, int seconds) {
  Samples samples;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  while (Clock::now() < end || samples.tick.empty()) {
    const EngineStats before = engine.stats();
    samples.tick.push_back(treadmill.tick());
    samples.features.push_back(1000 * (engine.stats().feature_seconds - before.feature_seconds));
    samples.decode.push_back(1000 * (engine.stats().decode_seconds - before.decode_seconds));
    samples.gemm.push_back(gemms != nullptr ? 1000 * gemms->run() : samples.tick.back());
  }
  return samples;
}

Report summarize(const Samples& samples, const GemmBaseline& gemms, int chunk_ms, int batch) {
  const double tick = percentile(samples.tick, 50);
  const double gemm = percentile(samples.gemm, 50);
  Report report;
  report.tick_ms_p50 = tick;
  report.tick_ms_p99 = percentile(samples.tick, 99);
  report.ms_per_stream_chunk = tick / batch;
  report.streams_per_core = chunk_ms / report.ms_per_stream_chunk;
  report.gemm_ratio = tick / gemm;
  report.gemm_gflops = gemms.flops() / (gemm * 1e6);
  report.features_ms = percentile(samples.features, 50) / batch;
  report.decode_ms = percentile(samples.decode, 50) / batch;
  return report;
}

std::vector<std::pair<std::string_view, double>> entries(const Report& r) {
  std::vector<std::pair<std::string_view, double>> entries{{"streams_per_core", r.streams_per_core},
                                                           {"ms_per_stream_chunk", r.ms_per_stream_chunk},
                                                           {"gemm_ratio", r.gemm_ratio},
                                                           {"gemm_gflops", r.gemm_gflops},
                                                           {"features_ms", r.features_ms},
                                                           {"decode_ms", r.decode_ms},
                                                           {"max_logprob_diff", r.max_logprob_diff},
                                                           {"rss_mb", r.rss_mb},
                                                           {"tick_ms_p50", r.tick_ms_p50},
                                                           {"tick_ms_p99", r.tick_ms_p99}};
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

void print_breakdown(const TimedOps::Seconds& seconds, const Samples& samples, int batch) {
  double tick = 0;
  double decode = 0;
  for (const double ms : samples.tick) tick += ms;
  for (const double ms : samples.decode) decode += ms;
  const auto chunks = static_cast<double>(samples.tick.size()) * batch;
  const auto row = [&](std::string_view name, double ms) {
    fmt::print("{:<20} {:7.3f} ms per stream-chunk {:5.1f} %\n", name, ms / chunks, 100 * ms / tick);
  };
  double rest = tick - decode;
  for (size_t kind = 0; kind < seconds.size(); ++kind) {
    row(TimedOps::names[kind], 1000 * seconds[kind]);
    rest -= 1000 * seconds[kind];
  }
  row("decode", decode);
  row("everything else", rest);
}

int bench(const Options& options) {
  constexpr int most_checked = 8;  // of a GPU's lanes: the reference is computed on one core
  cpu::use_level(options.cpu_level);
  EngineConfig config;
  config.device = options.device;
  std::string note;
  const Device device = select_devices(options.device, 1, note).front();
  const bool on_cpu = device.kind == Device::Kind::cpu;
  const LogprobCheck check(load(options), on_cpu ? options.batch : std::min(options.batch, most_checked));
  config.decoder = options.decoder;
  config.max_streams = options.batch;
  config.max_batch_size = options.batch;
  config.max_tick_ms = 10000;  // the batch is what is asked for, whatever it costs
  const WeightType weights = parse_weight_type(options.weights);
  std::unique_ptr<Ops> ops = open_device(device, weights);
  const auto model = std::make_shared<const ConformerCtc>(load(options), *ops, required_positions(config),
                                                          required_hypothesis_tokens(config));
  std::cerr << fmt::format("tutti: {}, batch {}\n", ops->description(), options.batch);
  const double difference = check.max_difference(model, open_device(device));
  if (!std::isfinite(difference)) throw std::logic_error("a log-probability is not a number");

  TimedOps::Seconds seconds{};
  if (options.breakdown) ops = std::make_unique<TimedOps>(std::move(ops), seconds);
  Engine engine(model, std::move(ops), config);
  Treadmill treadmill(engine, options.batch, options.snapshot_chunks);
  for (int i = 0; i < config.num_left_chunks + 2; ++i) (void)treadmill.tick();
  // What the references of the check left behind is not the model's.
  const double rss = static_cast<double>(resident_memory()) / (1 << 20);

  GemmBaseline gemms(model->spec(), config.chunk_size, options.batch, weights);
  if (on_cpu) gemms.choose_kernels(5);
  seconds = {};
  const EngineStats before = engine.stats();
  const Snapshots before_snapshots = treadmill.snapshots();
  const auto begin = Clock::now();
  const Samples samples = measure(engine, treadmill, on_cpu ? &gemms : nullptr, options.seconds);
  const double lasted = std::chrono::duration<double>(Clock::now() - begin).count();
  Report report = summarize(samples, gemms, engine.chunk_ms(), options.batch);
  report.max_logprob_diff = difference;
  report.rss_mb = rss;
  if (const int64_t segments = engine.stats().rescored_segments; segments > 0) {
    report.rescore_ms = 1000 * engine.stats().rescore_seconds / static_cast<double>(segments);
  }
  const auto ticks = static_cast<double>(samples.tick.size());
  if (options.snapshot_chunks > 0) {
    const Snapshots& after = treadmill.snapshots();
    report.snapshots_per_second = static_cast<double>(after.taken - before_snapshots.taken) / lasted;
    report.snapshot_mb_per_second = static_cast<double>(after.bytes - before_snapshots.bytes) / lasted / 1e6;
    report.postponed_per_tick = static_cast<double>(after.postponed - before_snapshots.postponed) / ticks;
  }
  if (!on_cpu) {
    const DeviceUse use = engine.stats().device;
    report.waits_per_tick = static_cast<double>(use.waits - before.device.waits) / ticks;
    report.allocations_per_tick = static_cast<double>(use.allocations - before.device.allocations) / ticks;
    report.device_ms = 1000 * (use.seconds - before.device.seconds) / ticks;
  }
  const std::pair<std::string_view, std::string_view> label{"cpu_level", cpu::level()};
  print_figures({&label, 1}, entries(report), options.json);
  if (options.breakdown) print_breakdown(seconds, samples, options.batch);
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
      "  tick_ms_p50          of whole ticks; tick_ms_p99 likewise\n"
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
  command->add_option("--batch", options->batch, "Streams in a tick")
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "How long to measure")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command
      ->add_option("--snapshots", options->snapshot_chunks,
                   "Copy a stream's state after every so many chunks, as a server does; 0 is never")
      ->check(CLI::Range(0, 10000))
      ->capture_default_str();
  add_cpu_level(*command, options->cpu_level);
  auto* const json = command->add_flag("--json", options->json, "One JSON object");
  command->add_flag("--breakdown", options->breakdown, "Also where the time of a tick goes")->excludes(json);
  command->callback([options, &exit_code] { exit_code = bench(*options); });
}

}  // namespace tutti
