#pragma once

#include <yaml-cpp/yaml.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

/// A mapping of a YAML file that knows its place, so that every refusal names file, key, value, and what
/// would be accepted. A key whose value is null counts as absent. All methods throw SetupError.
class YamlSection {
 public:
  /// The whole file.
  static YamlSection load(const std::string& file);

  /// The mapping under `key`; an empty one when the key is absent.
  [[nodiscard]] YamlSection section(const std::string& key) const;
  [[nodiscard]] std::optional<std::string> text(const std::string& key) const;
  [[nodiscard]] std::optional<bool> boolean(const std::string& key) const;
  [[nodiscard]] std::optional<double> number(const std::string& key) const;
  /// A whole number of [low, high].
  [[nodiscard]] std::optional<int> integer(const std::string& key, int low, int high) const;
  [[nodiscard]] int required_integer(const std::string& key, int low, int high) const;
  /// The value of `key`, or `fallback`, must be one of `accepted`; returns it.
  std::string one_of(const std::string& key, const std::string& fallback,
                     std::initializer_list<std::string_view> accepted) const;
  /// The value of `key`, or `fallback`, must be `accepted`.
  void require(const std::string& key, bool fallback, bool accepted) const;

  /// Refuses `key` for its value.
  [[noreturn]] void refuse(const std::string& key, std::string_view value, std::string_view accepted) const;
  [[noreturn]] void missing(const std::string& key) const;

 private:
  YamlSection(std::string file, std::string path, YAML::Node node)
      : file_(std::move(file)), path_(std::move(path)), node_(std::move(node)) {}

  [[nodiscard]] std::optional<YAML::Node> find(const std::string& key) const;
  template <class T>
  [[nodiscard]] std::optional<T> scalar(const std::string& key, std::string_view accepted) const;

  std::string file_;
  std::string path_;  ///< "encoder_conf.", for messages
  YAML::Node node_;
};

}  // namespace tutti
