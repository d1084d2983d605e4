#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "actors/metrics.hpp"
#include "app/net_metrics.hpp"

namespace tutti {
namespace {

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
  metrics.refused("full");
  metrics.error("full");
  metrics.upload_ended("done");
  metrics.subscriber_refused("no_such_stream");
  metrics.owner_lost("died");
  metrics.model("mini");
  metrics.reloaded("applied");
  const NetStats net;
  const CallbackStats callback;
  metrics.add_source(std::make_shared<NetMetrics>(net));
  metrics.add_source(std::make_shared<CallbackMetrics>(callback));
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

}  // namespace
}  // namespace tutti
