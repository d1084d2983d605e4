#include "model/zip_reader.hpp"

#include <fmt/format.h>
#include <zip.h>

#include "config/result.hpp"
#include "model/input_file.hpp"

namespace tutti {
namespace {

struct CloseFile {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

std::string open_error(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

}  // namespace

void ZipReader::Close::operator()(zip* archive) const { zip_discard(archive); }

ZipReader::ZipReader(const std::filesystem::path& file) : origin_(file.string()) {
  std::error_code unreadable;
  file_size_ = std::filesystem::file_size(file, unreadable);
  if (unreadable) throw SetupError(fmt::format("{}: cannot be read: {}", origin_, unreadable.message()));
  int code = 0;
  archive_.reset(zip_open(file.c_str(), ZIP_RDONLY, &code));
  if (!archive_) {
    throw SetupError(fmt::format("{}: is not a zip archive as torch.save writes since 1.6 ({})", origin_,
                                 open_error(code)));
  }
}

uint64_t ZipReader::count() const {
  return static_cast<uint64_t>(zip_get_num_entries(archive_.get(), ZIP_FL_UNCHANGED));
}

std::string_view ZipReader::name(uint64_t index) const {
  const char* name = zip_get_name(archive_.get(), index, ZIP_FL_ENC_RAW);
  return name == nullptr ? std::string_view{} : name;
}

std::optional<ZipReader::Entry> ZipReader::find(const std::string& name) const {
  const zip_int64_t index = zip_name_locate(archive_.get(), name.c_str(), ZIP_FL_ENC_RAW);
  if (index < 0) return std::nullopt;
  zip_stat_t stat;
  zip_stat_init(&stat);
  constexpr zip_uint64_t wanted = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
  if (zip_stat_index(archive_.get(), static_cast<zip_uint64_t>(index), 0, &stat) != 0 ||
      (stat.valid & wanted) != wanted) {
    throw SetupError(fmt::format("{}: entry {} has no size", origin_, printable(name)));
  }
  if (stat.comp_method != ZIP_CM_STORE) {
    throw SetupError(
        fmt::format("{}: entry {} is compressed; only stored entries, as torch.save writes them, "
                    "are accepted",
                    origin_, printable(name)));
  }
  if (stat.size != stat.comp_size || stat.size > file_size_) {
    throw SetupError(fmt::format("{}: entry {} claims {} bytes, the file has {}", origin_, printable(name),
                                 stat.size, file_size_));
  }
  return Entry{static_cast<uint64_t>(index), stat.size};
}

void ZipReader::read(const Entry& entry, uint64_t offset, std::span<std::byte> out) const {
  const auto broken = [&](std::string_view why) {
    return SetupError(
        fmt::format("{}: entry {} cannot be read: {}", origin_, printable(name(entry.index)), why));
  };
  const std::unique_ptr<zip_file_t, CloseFile> file(zip_fopen_index(archive_.get(), entry.index, 0));
  if (!file) throw broken(zip_strerror(archive_.get()));
  if (offset > 0 && zip_fseek(file.get(), static_cast<zip_int64_t>(offset), SEEK_SET) != 0) {
    throw broken(zip_file_strerror(file.get()));
  }
  while (!out.empty()) {
    const zip_int64_t got = zip_fread(file.get(), out.data(), out.size());
    if (got < 0) throw broken(zip_file_strerror(file.get()));
    if (got == 0) throw broken("it ends early");
    out = out.subspan(static_cast<size_t>(got));
  }
  // The checksum of an entry read from its beginning is compared when its end is met.
  char beyond = 0;
  if (zip_fread(file.get(), &beyond, 1) < 0) throw broken(zip_file_strerror(file.get()));
}

}  // namespace tutti
