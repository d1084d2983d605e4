#pragma once

#include <simdjson.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// A JSON object whose members are all known by name. Every other accessor throws SetupError naming the file,
/// the path of the key, and what is accepted, when the member is missing or of another kind. Keys are
/// literals.
class JsonSection {
 public:
  /// `object` lives as long as its parser. Refuses a key that appears twice.
  JsonSection(std::string file, std::string path, const simdjson::dom::object& object);
  /// Reads and parses the file. The section lives as long as `parser` and until its next use.
  [[nodiscard]] static JsonSection load(const std::string& file, simdjson::dom::parser& parser);

  /// For a member that may be left out.
  [[nodiscard]] bool contains(std::string_view key);
  [[nodiscard]] JsonSection section(std::string_view key);
  [[nodiscard]] std::string text(std::string_view key);
  [[nodiscard]] std::string one_of(std::string_view key, std::initializer_list<std::string_view> accepted);
  [[nodiscard]] int integer(std::string_view key, int low, int high);
  [[nodiscard]] float number(std::string_view key, float low, float high);

  /// Refuses a member that nothing above has asked for: it would be ignored otherwise.
  void refuse_others() const;
  [[noreturn]] void refuse(std::string_view key, std::string_view value, std::string_view accepted) const;
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  template <class T>
  [[nodiscard]] T member(std::string_view key, std::string_view accepted);
  void know(std::string_view key);
  [[nodiscard]] simdjson::dom::element find(std::string_view key, std::string_view accepted);

  std::string file_;
  std::string path_;  ///< "" or "encoder."
  simdjson::dom::object object_;
  std::vector<std::string_view> known_;  ///< keys asked for
};

}  // namespace tutti
