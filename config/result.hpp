#pragma once

#include <stdexcept>
#include <string>
#include <tl/expected.hpp>

namespace tutti {

/// What a client or a full device can cause. `code` is stable and machine-readable ("bad_encoding");
/// `message` is one sentence for a person: what is wrong, where, and what would be accepted.
struct Error {
  std::string code;
  std::string message;
};

/// The return type of every data-path function that untrusted input can make fail.
template <class T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(std::string code, std::string message) {
  return tl::unexpected<Error>(Error{std::move(code), std::move(message)});
}

/// Thrown while the process is being set up: configuration, checkpoints, devices.
struct SetupError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace tutti
