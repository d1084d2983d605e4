#include "app/version.hpp"

namespace tutti {

std::string_view program_version() { return TUTTI_VERSION; }

}  // namespace tutti
