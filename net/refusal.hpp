#pragma once

#include <tl/expected.hpp>

#include <string>
#include <utility>

#include "config/result.hpp"

namespace tutti {

/// Why a request is not served, as HTTP says it.
struct Refusal {
  unsigned status = 403;
  Error error;
  int retry_after_s = 0;  ///< when it is worth another try; 0 = it is not
};

template <class T>
using Admitted = tl::expected<T, Refusal>;

[[nodiscard]] inline tl::unexpected<Refusal> refusal(unsigned status, std::string code, std::string message,
                                                     int retry_after_s = 0) {
  return tl::unexpected(Refusal{status, {std::move(code), std::move(message)}, retry_after_s});
}

}  // namespace tutti
