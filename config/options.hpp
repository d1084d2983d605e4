#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/server_config.hpp"

namespace tutti {

/// A whole number from `min` to `max`.
struct WholeNumberField {
  int& (*field)(ServerConfig&);
  int min;
  int max;
};

/// A number from 0 to `max`, or -1 for what the model states.
struct WeightField {
  float& (*field)(ServerConfig&);
  float max;
};

/// Yes or no.
struct SwitchField {
  bool& (*field)(ServerConfig&);
};

/// One of a few words.
struct ChoiceField {
  std::string& (*field)(ServerConfig&);
  std::span<const std::string_view> choices;
};

/// Text that `accepts`; `accepted` says in words what that is.
struct TextField {
  std::string& (*field)(ServerConfig&);
  bool (*accepts)(std::string_view);
  std::string_view accepted;
};

/// Any number of texts, each of which `accepts`; in one string they are separated by commas.
struct ListField {
  std::vector<std::string>& (*field)(ServerConfig&);
  bool (*accepts)(std::string_view);
  std::string_view accepted;
};

/// When a change of the configuration has its effect.
enum class Applies : uint8_t {
  at_start,    ///< not before the server is started again
  at_once,     ///< as soon as it is reloaded, for what begins from then on
  with_model,  ///< the same; the model is loaded again, beside the running one
};

/// "Reloaded."
[[nodiscard]] std::string_view when_applied(Applies applies);

/// One thing `tutti serve` can be told, under all its names.
struct ConfigOption {
  std::string_view name;  ///< in the configuration file: "engine.max_streams"
  std::string_view help;  ///< one line
  std::variant<WholeNumberField, WeightField, SwitchField, ChoiceField, TextField, ListField> value;
  Applies applies = Applies::at_start;

  /// "TUTTI_ENGINE_MAX_STREAMS"
  [[nodiscard]] std::string environment() const;
  /// "--max-streams", "--callback-url"
  [[nodiscard]] std::string flag() const;
  /// What completes "expected ...": "a whole number from 1 to 100000".
  [[nodiscard]] std::string accepted() const;
  /// The value in `config` as the configuration file writes it: 64, true, or "cpu" in quotes.
  [[nodiscard]] std::string to_toml(const ServerConfig& config) const;

  /// Gives `to` the value of `from`.
  void copy(const ServerConfig& from, ServerConfig& to) const;

  // Each stores a value of its type and returns true, or stores nothing when the option does not accept it.

  [[nodiscard]] bool set_number(ServerConfig& config, int64_t number) const;
  [[nodiscard]] bool set_weight(ServerConfig& config, double weight) const;
  [[nodiscard]] bool set_switch(ServerConfig& config, bool on) const;
  [[nodiscard]] bool set_text(ServerConfig& config, std::string_view text) const;
  [[nodiscard]] bool set_list(ServerConfig& config, const std::vector<std::string>& items) const;
  /// A number, true or false, text or a list, whichever the option is, as a flag or an environment variable
  /// spells it.
  [[nodiscard]] bool parse(ServerConfig& config, std::string_view spelled) const;
};

/// Every option there is, section by section.
[[nodiscard]] std::span<const ConfigOption> config_options();

/// nullptr when there is none of that name.
[[nodiscard]] const ConfigOption* find_option(std::string_view name);
/// The option a misspelt name most likely means.
[[nodiscard]] const ConfigOption& nearest_option(std::string_view name);

/// A configuration file that says what `config` says, each option with its meaning and its other names.
[[nodiscard]] std::string render_toml(const ServerConfig& config);

}  // namespace tutti
