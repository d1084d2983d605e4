#pragma once

#include <boost/interprocess/mapped_region.hpp>
#include <cstddef>
#include <filesystem>
#include <span>

namespace tutti {

/// A file's bytes, mapped to be read: pages come into memory when they are touched, and the kernel may drop
/// them again. A file must not be shortened in place while it is mapped; replacing it by another is harmless.
class MappedFile {
 public:
  /// Throws SetupError when the file cannot be read. An empty file has no bytes.
  explicit MappedFile(const std::filesystem::path& file);

  [[nodiscard]] std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(region_.get_address()), region_.get_size()};
  }

 private:
  boost::interprocess::mapped_region region_;
};

}  // namespace tutti
