#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "actors/metrics.hpp"
#include "actors/service.hpp"
#include "actors/trace_writer.hpp"
#include "config/result.hpp"
#include "tests/actors/service_client.hpp"
#include "tests/config/temp_directory.hpp"
#include "tests/engine/engine_fixture.hpp"

namespace tutti::test {
namespace {

struct TracedEvent {
  std::string name;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t value = 0;  // its only argument
};

struct ReadTrace {
  std::string session;
  std::map<std::string, std::vector<TracedEvent>> rows;  // in the order of the file

  [[nodiscard]] std::vector<TracedEvent> all(const std::string& row, const std::string& name) const {
    std::vector<TracedEvent> found;
    for (const TracedEvent& event : rows.at(row)) {
      if (event.name == name) found.push_back(event);
    }
    return found;
  }
};

ReadTrace read_trace(const std::filesystem::path& path) {
  simdjson::dom::parser parser;
  const simdjson::dom::element file = parser.load(path.string());
  ReadTrace trace;
  trace.session = std::string(std::string_view(file["otherData"]["session"]));
  std::map<int64_t, std::string> threads;
  for (const simdjson::dom::element event : simdjson::dom::array(file["traceEvents"])) {
    const auto name = std::string(std::string_view(event["name"]));
    const int64_t thread = event["tid"];
    if (name == "thread_name") {
      threads[thread] = std::string(std::string_view(event["args"]["name"]));
      continue;
    }
    TracedEvent read{.name = name, .begin = event["ts"]};
    int64_t duration = 0;
    read.end = read.begin + (event["dur"].get(duration) == simdjson::SUCCESS ? duration : 0);
    simdjson::dom::object values;
    if (event["args"].get(values) == simdjson::SUCCESS) read.value = (*values.begin()).value;
    trace.rows[threads.at(thread)].push_back(std::move(read));
  }
  return trace;
}

/// Each event of a row begins within those that contain it, and ends there.
void expect_nested(const std::vector<TracedEvent>& row) {
  std::vector<TracedEvent> open;
  int64_t last = 0;
  for (const TracedEvent& event : row) {
    EXPECT_GE(event.begin, last) << event.name;
    last = event.begin;
    while (!open.empty() && open.back().end <= event.begin && open.back().end < event.end) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(event.end, open.back().end) << event.name << " in " << open.back().name;
    }
    open.push_back(event);
  }
}

class TracingTest : public ::testing::Test {
 protected:
  ServiceOptions options() {
    ServiceOptions options;
    options.owners.push_back({.device = "cpu",
                              .make_engine = [] { return make_engine(); },
                              .core = {},
                              .traced = true,
                              .metrics = metrics});
    options.trace_folder = folder.path();
    return options;
  }
  TempDirectory folder;
  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
};

TEST_F(TracingTest, ATraceHasEveryChunkOfAClipFromItsAudioToItsResults) {
  const std::vector<std::byte> audio = pcm(clip("libri-02.flac"));
  RecordingSink told;
  {
    RecognitionService service(options(), metrics);
    Client client(service.gateway(), "");
    client.send(audio);
    client.send_text(R"({"type":"eof"})");
    const RecordingSink& sink = client.wait_until_closed();
    told.messages = sink.messages;
  }
  const ReadTrace trace = read_trace(folder.path() / "test-session.json");
  EXPECT_EQ(trace.session, "test-session");
  for (const auto& [name, row] : trace.rows) {
    SCOPED_TRACE(name);
    expect_nested(row);
  }
  const std::string client = "track 0: client";
  const std::string recognition = "track 0: recognition";
  const std::string results = "track 0: results";

  int64_t bytes = 0;
  for (const TracedEvent& event : trace.all(client, "audio")) bytes += event.value;
  EXPECT_EQ(bytes, std::ssize(audio));
  EXPECT_EQ(trace.all(client, "end of audio").size(), 1U);

  EXPECT_EQ(trace.all(recognition, "waiting for a place").size(), 1U);
  const auto chunks = trace.all(recognition, "chunk").size();
  const std::string text = metrics->text();
  const std::string counted = "tutti_chunk_latency_seconds_count{class=\"live\"} ";
  ASSERT_NE(text.find(counted), std::string::npos);
  EXPECT_EQ(chunks, std::stoul(text.substr(text.find(counted) + counted.size())));
  EXPECT_GT(chunks, 3U);
  for (const char* stage : {"queue", "features", "forward", "decode"}) {
    EXPECT_EQ(trace.all(recognition, stage).size(), chunks) << stage;
  }
  EXPECT_GE(trace.all(recognition, "tick").size(), chunks);
  EXPECT_EQ(trace.all(recognition, "emit").size(), trace.all(recognition, "tick").size());

  EXPECT_EQ(std::ssize(trace.all(results, "partial")), told.count("\"partial\""));
  EXPECT_EQ(std::ssize(trace.all(results, "final")), told.count("\"final\""));
  EXPECT_GT(trace.all(results, "results").size(), 0U);
  EXPECT_EQ(trace.all("session", "session").size(), 1U);
  const TracedEvent whole = trace.rows.at("session").front();
  for (const auto& [name, row] : trace.rows) {
    EXPECT_GE(row.front().begin, 0) << name;
    EXPECT_LE(row.back().end, whole.end) << name;
  }
}

TEST_F(TracingTest, TheFirstSessionsAreTracedAndNoMore) {
  const auto path = [this](int session) { return folder.path() / ("s" + std::to_string(session) + ".json"); };
  {
    RecognitionService service(options(), metrics);
    for (int i = 0; i <= TraceWriter::max_traces; ++i) {
      const auto sink = std::make_shared<RecordingSink>();
      SessionRequest request = native_session("encoding=unheard");
      request.session = "s" + std::to_string(i);
      const auto port = service.gateway().open_stream(std::move(request), sink);
      sink->wait_until_closed();
    }
  }
  EXPECT_TRUE(std::filesystem::exists(path(0)));
  EXPECT_FALSE(std::filesystem::exists(path(TraceWriter::max_traces)));
}

TEST_F(TracingTest, AFolderThatIsNotThereIsRefused) {
  ServiceOptions missing = options();
  missing.trace_folder /= "missing";
  EXPECT_THROW(RecognitionService(missing, metrics), SetupError);
}

}  // namespace
}  // namespace tutti::test
