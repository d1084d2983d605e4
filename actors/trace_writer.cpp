#include "actors/trace_writer.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <fstream>
#include <utility>

#include "config/log_line.hpp"
#include "config/result.hpp"

namespace tutti {
namespace {

void write_file(const std::filesystem::path& folder, const SessionTrace& trace) {
  const std::filesystem::path path = folder / (trace.session() + ".json");
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << trace.json() << '\n';
  file.close();
  if (!file) spdlog::error("{}its trace cannot be written: {}", about(trace.session()), path.string());
}

TraceWriterActor::behavior_type trace_writer(TraceWriterActor::pointer self,
                                             const std::filesystem::path& folder,
                                             const std::shared_ptr<std::atomic<int>>& waiting) {
  return {
      [folder, waiting](written_atom, const EndedTrace& ended) {
        write_file(folder, *ended.trace);
        --*waiting;
      },
      [self](stop_atom) { self->quit(); },
  };
}

}  // namespace

void TraceWriter::check(const std::filesystem::path& folder) {
  if (std::filesystem::is_directory(folder)) return;
  throw SetupError(fmt::format("server.trace_dir: {} is no directory", folder.string()));
}

TraceWriter::TraceWriter(caf::actor_system& system, std::filesystem::path folder) {
  check(folder);
  actor_ = system.spawn<caf::detached>(trace_writer, std::move(folder), waiting_);
}

TraceWriter::~TraceWriter() { caf::anon_send(actor_, stop_atom_v); }

std::shared_ptr<SessionTrace> TraceWriter::begin(const std::string& session, std::string_view dialect) {
  if (begun_ >= max_traces || begun_.fetch_add(1) >= max_traces) return nullptr;
  return std::make_shared<SessionTrace>(session, std::string(dialect), Clock::now(),
                                        std::chrono::system_clock::now());
}

void TraceWriter::end(std::shared_ptr<const SessionTrace> trace) {
  if (waiting_->fetch_add(1) >= max_waiting) {
    --*waiting_;
    return spdlog::warn("{}its trace is dropped: {} others wait to be written", about(trace->session()),
                        max_waiting);
  }
  caf::anon_send(actor_, written_atom_v, EndedTrace{std::move(trace)});
}

}  // namespace tutti
