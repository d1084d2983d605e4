#pragma once

#include <string>
#include <utility>
#include <variant>

#include "actors/ports.hpp"
#include "proto/native.hpp"

namespace tutti::test {

/// A session that speaks the native dialect.
inline SessionRequest native_session(const std::string& query) {
  proto::Handshake handshake;
  handshake.session = "test-session";
  handshake.query = query;
  auto accepted = std::get<proto::Accepted>(proto::accept_native(handshake));
  return {.session = handshake.session, .dialect_name = "native", .dialect = std::move(accepted.dialect)};
}

}  // namespace tutti::test
