#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "actors/metrics.hpp"
#include "app/gpu_metrics.hpp"
#include "app/net_metrics.hpp"
#include "cluster/cluster_metrics.hpp"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using Kinds = std::map<std::string, std::string>;  // by name

std::vector<std::string> split(const std::string& text, const std::regex& separator) {
  return {std::sregex_token_iterator(text.begin(), text.end(), separator, -1), {}};
}

/// The table's rows: one name or several, with labels, and their kind or kinds.
Kinds documented() {
  std::ifstream file(TUTTI_DOCS "/metrics.md");
  Kinds kinds;
  const std::regex row(R"(^\| (`[^|]+`) \| ([a-z, ]+) \|.*)");
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    const std::vector<std::string> names = split(match[1], std::regex(", (?=`)"));
    const std::vector<std::string> of = split(match[2], std::regex(", "));
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string name = std::regex_replace(names[i], std::regex(R"(`|\{.*\})"), "");
      kinds["tutti_" + name] = of[std::min(i, of.size() - 1)];
    }
  }
  return kinds;
}

/// What a server says once everything has happened that is shown by name only then.
Kinds exported() {
  Metrics metrics;
  metrics.session_opened("native");
  metrics.session_closed("native", true);
  metrics.session_ended("native", "finished");
  metrics.refused("native", "full");
  metrics.error("native", "full");
  metrics.upload_ended("done");
  metrics.subscriber_refused("no_such_stream");
  metrics.owner_lost("died");
  metrics.model("mini");
  metrics.reloaded("applied");
  const DeviceMetrics device = metrics.of_device("cuda:0");
  const NetStats net;
  const CallbackStats callback;
  metrics.add_source(std::make_shared<NetMetrics>(net));
  metrics.add_source(std::make_shared<CallbackMetrics>(callback));
  metrics.add_source(std::make_shared<GpuMetrics>(std::vector<ServingGpu>{{}},
                                                  [](const Device&) { return DeviceMemory{}; }));
  const auto cluster = std::make_shared<ClusterMetrics>();
  cluster->engine_places("10.0.0.3:7000", 64);
  metrics.add_source(cluster);
  std::istringstream text(metrics.text());
  Kinds kinds;
  std::string hash;
  std::string what;
  std::string name;
  std::string kind;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    if (words >> hash >> what >> name >> kind && what == "TYPE") kinds[name] = kind;
  }
  return kinds;
}

TEST(MetricsDocument, NamesEveryMetricAndNoOther) {
  ASSERT_GT(documented().size(), 40U);
  EXPECT_EQ(documented(), exported());
}

TEST(MetricsDocument, NamesNothingOfGpusWhereThereAreNone) {
  Metrics metrics;
  metrics.add_source(std::make_shared<GpuMetrics>(std::vector<ServingGpu>{}));
  EXPECT_EQ(metrics.text().find("tutti_device"), std::string::npos);
}

TEST(GpuMetrics, LeaveOutTheMemoryOfAGpuThatIsLost) {
  const std::vector<ServingGpu> gpus{
      {{Device::Kind::cuda, 0}, {.name = "H200", .compute = "9.0", .driver = "13.0", .runtime = "13.0"}},
      {{Device::Kind::cuda, 1}, {}}};
  Metrics metrics;
  metrics.add_source(std::make_shared<GpuMetrics>(gpus, [](const Device& gpu) -> DeviceMemory {
    if (gpu.index == 1) throw std::runtime_error("it fell off the bus");
    return {.free = 3, .total = 10};
  }));
  const std::string text = metrics.text();
  EXPECT_NE(text.find(R"(tutti_device_memory_bytes{device="cuda:0",state="used"} 7)"), std::string::npos);
  EXPECT_NE(text.find(R"(tutti_device_memory_bytes{device="cuda:0",state="free"} 3)"), std::string::npos);
  EXPECT_NE(text.find(R"(tutti_device_info{device="cuda:0",name="H200",compute="9.0")"), std::string::npos);
  EXPECT_NE(text.find(R"(tutti_device_info{device="cuda:1")"), std::string::npos);
  EXPECT_EQ(text.find(R"(tutti_device_memory_bytes{device="cuda:1")"), std::string::npos);
}

/// What a chunk goes through on its way, and how long its client waits for it.
TEST(MetricsDocument, HasAHistogramOfEveryStage) {
  const Metrics metrics;
  const std::string text = metrics.text();
  for (const char* buckets :
       {R"(tutti_stage_seconds_bucket{stage="queue",le=)",
        R"(tutti_stage_seconds_bucket{stage="features",le=)",
        R"(tutti_stage_seconds_bucket{stage="forward",le=)",
        R"(tutti_stage_seconds_bucket{stage="decode",le=)", R"(tutti_stage_seconds_bucket{stage="emit",le=)",
        R"(tutti_first_text_seconds_bucket{le=)", R"(tutti_chunk_latency_seconds_bucket{class="live",le=)",
        R"(tutti_final_latency_seconds_bucket{le=)"}) {
    EXPECT_THAT(text, HasSubstr(std::string(buckets) + "\"0")) << "below a second, not one for all";
  }
}

}  // namespace
}  // namespace tutti
