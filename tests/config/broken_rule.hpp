#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace tutti {

/// What a checker throws when what it watches breaks a rule: a failed test, or a crash that a fuzzer keeps.
struct BrokenRule : std::logic_error {
  using std::logic_error::logic_error;
};

/// `rule` is what had to hold.
inline void require(bool holds, std::string_view rule) {
  if (!holds) throw BrokenRule(std::string(rule));
}

}  // namespace tutti
