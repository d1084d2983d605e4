#include "model/mapped_file.hpp"

#include <fmt/format.h>

#include <boost/interprocess/file_mapping.hpp>

#include "config/result.hpp"

namespace tutti {

MappedFile::MappedFile(const std::filesystem::path& file) {
  namespace interprocess = boost::interprocess;
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  if (error) throw SetupError(fmt::format("{}: cannot be read: {}", file.string(), error.message()));
  if (size == 0) return;  // cannot be mapped
  try {
    const interprocess::file_mapping mapping(file.c_str(), interprocess::read_only);
    region_ = interprocess::mapped_region(mapping, interprocess::read_only);
  } catch (const interprocess::interprocess_exception& refusal) {
    throw SetupError(fmt::format("{}: cannot be read: {}", file.string(), refusal.what()));
  }
}

}  // namespace tutti
