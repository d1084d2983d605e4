#include "proto/dialects.hpp"

#include <algorithm>

#include "proto/native.hpp"

namespace tutti::proto {
namespace {

constexpr DialectEntry table[] = {
    {.name = "native", .path = "/v1/stream", .usual_port = 0, .accept = accept_native},
};

const DialectEntry* entry_or_null(const DialectEntry* found) {
  return found == std::end(table) ? nullptr : found;
}

}  // namespace

std::span<const DialectEntry> dialects() { return table; }

const DialectEntry* find_dialect(std::string_view name) {
  return entry_or_null(std::ranges::find(table, name, &DialectEntry::name));
}

const DialectEntry* find_dialect_at(std::string_view path) {
  return entry_or_null(std::ranges::find(table, path, &DialectEntry::path));
}

}  // namespace tutti::proto
