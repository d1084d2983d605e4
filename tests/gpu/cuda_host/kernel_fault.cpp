#include "tests/gpu/cuda_host/kernel_fault.hpp"

#include <optional>

namespace tutti::cuda::host {
namespace {

thread_local std::set<Site> passed;
thread_local std::optional<Site> seeded;

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

thread_local bool SeededFaults::active_ = false;

std::string to_string(const Site& site) {
  return (site.kind == Site::Kind::barrier ? "barrier at " : "index at ") + base_name(site.file) + ":" +
         std::to_string(site.line) + ":" + std::to_string(site.column);
}

std::string to_string(const std::source_location& where) {
  return base_name(where.file_name()) + ":" + std::to_string(where.line());
}

void SeededFaults::record() {
  clear();
  active_ = true;
}

std::set<Site> SeededFaults::recorded() {
  active_ = false;
  return passed;
}

void SeededFaults::seed(const Site& site) {
  seeded = site;
  active_ = true;
}

void SeededFaults::clear() {
  passed.clear();
  seeded.reset();
  active_ = false;
}

bool SeededFaults::look(Site::Kind kind, const std::source_location& where) {
  if (seeded) {
    return seeded->kind == kind && seeded->line == where.line() && seeded->column == where.column() &&
           seeded->file == where.file_name();
  }
  passed.insert({kind, where.file_name(), where.line(), where.column()});
  return false;
}

}  // namespace tutti::cuda::host
