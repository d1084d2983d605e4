#include "app/log_format.hpp"

#include <spdlog/pattern_formatter.h>

#include <string>
#include <string_view>

#include "config/utf8.hpp"

namespace tutti {
namespace {

class SingleLine final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    const std::string line = single_line({message.payload.data(), message.payload.size()});
    out.append(line.data(), line.data() + line.size());
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<SingleLine>();
  }
};

}  // namespace

std::unique_ptr<spdlog::formatter> log_formatter() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<SingleLine>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %*");
  return formatter;
}

}  // namespace tutti
