#include "cluster/byte_reader.hpp"

#include <fmt/format.h>

namespace tutti::wire {

void ByteReader::text(std::string_view field, std::string& value) {
  value.resize(count(field, 1));
  const auto bytes = take(value.size(), field);
  if (!bytes.empty()) std::memcpy(value.data(), bytes.data(), bytes.size());
}

void ByteReader::moment(std::string_view field, Clock::time_point& moment) {
  int64_t age = 0;
  number(field, age);
  moment = {};
  if (age == no_age || !fault_.empty()) return;
  if (age < -longest_age || age > longest_age) {
    refuse(field, fmt::format("an age of {} ns is more than 146 years", age));
  } else {
    moment = now_ - std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(age));
  }
}

std::span<const std::byte> ByteReader::take(size_t count, std::string_view field) {
  if (!fault_.empty()) return {};
  if (count > rest_.size()) {
    refuse(field, fmt::format("takes {} bytes, {} are left", count, rest_.size()));
    return {};
  }
  const auto taken = rest_.first(count);
  rest_ = rest_.subspan(count);
  return taken;
}

size_t ByteReader::count(std::string_view field, size_t least_bytes) {
  uint32_t items = 0;
  number(field, items);
  if (items <= rest_.size() / least_bytes) return items;
  refuse(field, fmt::format("{} of at least {} bytes each are said to follow, {} bytes are left", items,
                            least_bytes, rest_.size()));
  return 0;
}

uint8_t ByteReader::byte_up_to(std::string_view field, uint8_t most) {
  uint8_t value = 0;
  number(field, value);
  if (value <= most) return value;
  refuse(field, fmt::format("{} is not from 0 to {}", value, most));
  return 0;
}

void ByteReader::finish() {
  if (!rest_.empty()) refuse("end", fmt::format("{} more bytes follow", rest_.size()));
}

void ByteReader::refuse_number(std::string_view field, int64_t value, int64_t least) {
  refuse(field, fmt::format("{} is less than {}", value, least));
}

void ByteReader::refuse(std::string_view field, std::string_view why) {
  if (fault_.empty()) fault_ = fmt::format("{} at byte {}: {}", field, size_ - rest_.size(), why);
  rest_ = {};
}

}  // namespace tutti::wire
