#include "app/log_format.hpp"

#include <fmt/chrono.h>
#include <spdlog/pattern_formatter.h>

#include <chrono>
#include <string>
#include <string_view>

#include "config/json_writer.hpp"
#include "config/log_line.hpp"
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

class JsonLines final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const std::string text = single_line({message.payload.data(), message.payload.size()});
    const LogLine line = read_log_line(text);
    const auto level = spdlog::level::to_string_view(message.level);
    const auto time = std::chrono::floor<std::chrono::milliseconds>(message.time);
    const auto second = std::chrono::floor<std::chrono::seconds>(time);
    JsonWriter json;
    json.begin_object()
        .key("time")
        .string(fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(second), (time - second).count()))
        .key("level")
        .string({level.data(), level.size()});
    for (const auto& [name, value] : line.fields) json.key(name).string(value);
    json.key("message").string(line.message).end_object();
    const std::string written = std::move(json).take() + "\n";
    out.append(written.data(), written.data() + written.size());
  }
  [[nodiscard]] std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonLines>();
  }
};

}  // namespace

std::unique_ptr<spdlog::formatter> log_formatter(std::string_view format) {
  if (format == "json") return std::make_unique<JsonLines>();
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<SingleLine>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %*");
  return formatter;
}

}  // namespace tutti
