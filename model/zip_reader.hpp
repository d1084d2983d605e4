#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

struct zip;  // of libzip

namespace tutti {

/// Reads entries of a zip archive that were stored, not compressed, so that no entry is larger than the file.
/// Every method throws SetupError naming the file and the entry.
class ZipReader {
 public:
  struct Entry {
    uint64_t index;
    uint64_t size;  ///< bytes, at most the file's
  };

  explicit ZipReader(const std::filesystem::path& file);

  [[nodiscard]] uint64_t file_size() const { return file_size_; }
  [[nodiscard]] uint64_t count() const;
  /// Name of entry `index`; valid as long as the reader.
  [[nodiscard]] std::string_view name(uint64_t index) const;
  /// nullopt when there is no such entry; refuses a compressed one.
  [[nodiscard]] std::optional<Entry> find(const std::string& name) const;
  /// Fills `out` with the entry's bytes from `offset` on.
  void read(const Entry& entry, uint64_t offset, std::span<std::byte> out) const;

 private:
  struct Close {
    void operator()(zip* archive) const;
  };
  std::string origin_;
  uint64_t file_size_;
  std::unique_ptr<zip, Close> archive_;
};

}  // namespace tutti
