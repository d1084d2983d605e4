#pragma once

#include <string>

#include "net/client.hpp"

namespace tutti {

/// What a connection's end means to the person who made it: one sentence.
[[nodiscard]] std::string describe(const ClientEnd& end, const ClientUrl& url);

}  // namespace tutti
