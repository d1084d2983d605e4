#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "app/bench.hpp"
#include "app/percentiles.hpp"
#include "cache/attention_cache.hpp"
#include "gpu/device.hpp"

namespace tutti {
namespace {

struct Options {
  int lanes = 64;
  int chunk_size = 16;
  int block_size_frames = 16;
  int num_left_chunks = 4;
  int seconds = 2;
  bool json = false;
};

/// Of one layer and one value a frame: what a tick costs the cache manager does not depend on what a block
/// holds.
CacheConfig cache_config(const Options& options) {
  return {.num_layers = 1,
          .n_kv_head = 1,
          .head_dim = 1,
          .hidden_dim = 1,
          .chunk_size = options.chunk_size,
          .num_left_chunks = options.num_left_chunks,
          .block_size_frames = options.block_size_frames,
          .max_streams = options.lanes,
          .max_batch_size = options.lanes};
}

/// Streams that advance by a chunk in every tick.
class Cohort {
 public:
  explicit Cohort(const Options& options)
      : ops_(open_device({})),
        pool_(cache_config(options), *ops_),
        attention_(pool_, pool_.config()),
        batch_(pool_, options.lanes, attention_.table_width()),
        frames_(static_cast<size_t>(options.lanes), options.chunk_size) {
    for (int slot = 0; slot < options.lanes; ++slot) {
      ids_.push_back((StreamId{1} << 32) | slot);  // as an engine names its streams
      attention_.allocate_stream(ids_.back());
    }
  }

  void prepare_and_commit() {
    attention_.prepare_chunks_batched(ids_, frames_);
    commit();
  }
  void whole_tick() {
    attention_.prepare_chunks_batched(ids_, frames_);
    attention_.fill_batch(ids_, batch_);
    commit();
  }

 private:
  void commit() {
    for (size_t lane = 0; lane < ids_.size(); ++lane)
      attention_.commit_chunk_paged(ids_[lane], frames_[lane]);
  }

  std::unique_ptr<Ops> ops_;
  BlockPool pool_;
  AttentionCacheManager attention_;
  PagedKvCache batch_;
  std::vector<StreamId> ids_;
  std::vector<int> frames_;
};

/// Microseconds a call, over enough calls that reading the clock does not count.
template <class Tick>
double microseconds(Tick tick) {
  constexpr int calls = 100;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) tick();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / calls;
}

int bench(const Options& options) {
  Cohort cohort(options);
  for (int chunk = 0; chunk < 2 * (options.num_left_chunks + 2); ++chunk) cohort.whole_tick();
  std::vector<double> prepare_commit;
  std::vector<double> whole_tick;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  while (std::chrono::steady_clock::now() < end) {
    prepare_commit.push_back(microseconds([&] { cohort.prepare_and_commit(); }));
    whole_tick.push_back(microseconds([&] { cohort.whole_tick(); }));
  }
  const std::pair<std::string_view, double> figures[] = {
      {"prepare_commit_us", percentile(std::move(prepare_commit), 50)},
      {"whole_tick_us", percentile(std::move(whole_tick), 50)}};
  print_figures({}, figures, options.json);
  return 0;
}

}  // namespace

void add_bench_cache(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command =
      app.add_subcommand("cache", "The paged attention cache by itself: block tables, no keys and values");
  command->footer(
      "Every stream has a full window, so each tick allocates and evicts for every lane. Medians of:\n"
      "  prepare_commit_us    one batched prepare and a commit for every lane\n"
      "  whole_tick_us        the same, and the batch's block tables filled in between");
  command->add_option("--lanes", options->lanes, "Streams in a tick")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--chunk-size", options->chunk_size, "Frames a stream advances by")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--block-size-frames", options->block_size_frames, "Frames of a block")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--num-left-chunks", options->num_left_chunks, "Chunks of history")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "How long to measure")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command->add_flag("--json", options->json, "One JSON object");
  command->callback([options, &exit_code] { exit_code = bench(*options); });
}

}  // namespace tutti
