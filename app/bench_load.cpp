#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <deque>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "app/bench.hpp"
#include "app/clips.hpp"
#include "app/connection_options.hpp"
#include "app/load_client.hpp"
#include "app/percentiles.hpp"
#include "config/json_writer.hpp"
#include "config/result.hpp"
#include "net/client.hpp"

namespace tutti {

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string url = "ws://127.0.0.1:8080";
  std::string audio;
  ConnectionOptions connection;
  int streams = 1;
  int seconds = 30;
  bool json = false;
};

/// Speakers do not all begin at once: the streams start evenly over this.
constexpr std::chrono::milliseconds start_spread{2000};

LoadResults run(const Options& options, const ClientUrl& url, std::span<const Clip> clips) {
  LoadResults results;
  ClientLoop loop(options.connection.ca_file);
  const auto start = Clock::now();
  const auto end = start + std::chrono::seconds(options.seconds);
  std::deque<LoadClient> clients;
  for (int i = 0; i < options.streams; ++i) {
    LoadClient& client = clients.emplace_back(loop, url, options.connection.api_key, clips,
                                              static_cast<size_t>(i), end, results);
    loop.call_at(start + start_spread * i / options.streams, [&client] { client.start(); });
  }
  loop.run();
  return results;
}

int64_t count_failures(const LoadResults& results) {
  int64_t count = 0;
  for (const auto& failure : results.failures) count += failure.second;
  return count;
}

std::vector<std::pair<std::string_view, Percentiles>> latencies(const LoadResults& results) {
  return {{"first_partial_ms", percentiles(results.first_partial)},
          {"chunk_ms", percentiles(results.chunk)},
          {"final_ms", percentiles(results.final)},
          {"send_lag_ms", percentiles(results.send_lag)}};
}

void print_json(const Options& options, const LoadResults& results) {
  JsonWriter json;
  json.begin_object().key("streams").integer(options.streams).key("sessions").integer(results.sessions);
  json.key("errors").integer(count_failures(results)).key("audio_seconds").decimal(results.audio_seconds);
  for (const auto& [name, values] : latencies(results)) {
    json.key(name).begin_object().key("p50").decimal(values.p50).key("p95").decimal(values.p95);
    json.key("p99").decimal(values.p99).end_object();
  }
  if (results.words.words > 0) json.key("word_error_rate").number(results.words.rate());
  fmt::print("{}\n", std::move(json.end_object()).take());
}

void print_table(const Options& options, const LoadResults& results) {
  fmt::print("{} streams: {} sessions, {:.1f} s of audio, {} errors\n", options.streams, results.sessions,
             results.audio_seconds, count_failures(results));
  fmt::print("{:<18} {:>8} {:>8} {:>8}\n", "", "p50", "p95", "p99");
  for (const auto& [name, values] : latencies(results)) {
    fmt::print("{:<18} {:8.1f} {:8.1f} {:8.1f}\n", name, values.p50, values.p95, values.p99);
  }
  if (results.words.words > 0) fmt::print("word error rate    {:7.1f} %\n", 100 * results.words.rate());
}

int bench(const Options& options) {
  const auto url = parse_client_url(options.url);
  if (!url) throw SetupError(url.error().message);
  if (const auto complete = with_defaults(*url, {}); !complete) throw SetupError(complete.error().message);
  const std::vector<Clip> clips = load_clips(options.audio);
  const LoadResults results = run(options, *url, clips);
  options.json ? print_json(options, results) : print_table(options, results);
  for (const auto& [what, count] : results.failures)
    std::cerr << fmt::format("tutti: {} times: {}\n", count, what);
  return results.failures.empty() ? 0 : 1;
}

}  // namespace

void add_bench_load(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("load", "Many speakers at once against a running server");
  command->footer(
      "Every stream sends one clip after another in frames of 20 ms, each when its last sample would have "
      "been\n"
      "spoken, over a connection of its own. Clips that have begun when the time is up are finished.\n"
      "  first_partial_ms  from sending a clip's first frame to its first partial with text: the speaker's "
      "own\n"
      "                    first pause is in it\n"
      "  chunk_ms          from sending the last sample that a partial covers to receiving the partial: "
      "that\n"
      "                    sample ends the chunk in which the partial's `end` lies, plus the 45 ms its last "
      "frame\n"
      "                    sees beyond it\n"
      "  final_ms          from sending eof to receiving the final with reason eof\n"
      "  send_lag_ms       a frame's sending behind its time: above a few ms this program is the bottleneck\n"
      "  errors            sessions that did not end with `done`; their latencies count as far as they came\n"
      "Exit status 1 when there were errors.");
  command->add_option("--url", options->url, "The server")->capture_default_str();
  command->add_option("--streams", options->streams, "Speakers")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "How long clips are begun")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  command
      ->add_option("--audio", options->audio,
                   "A directory of clips; with transcripts.jsonl the word error rate is computed")
      ->type_name("DIR")
      ->required();
  add_connection_options(*command, options->connection);
  command->add_flag("--json", options->json, "One JSON object");
  command->callback([options, &exit_code] { exit_code = bench(*options); });
}

}  // namespace tutti
