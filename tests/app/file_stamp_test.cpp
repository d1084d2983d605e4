#include "app/file_stamp.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/config/temp_directory.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

class FileStamp : public testing::Test {
 protected:
  FileStamp() {
    write("a", "one");
    write("b", "two");
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(directory / name) << text;
  }

  test::TempDirectory folder;
  const fs::path directory = folder.path();
};

TEST_F(FileStamp, StaysAsLongAsTheFilesDo) {
  const std::string before = stamp_files(directory);
  EXPECT_NE(before, "");
  std::ifstream(directory / "a").get();
  EXPECT_EQ(stamp_files(directory), before);
}

TEST_F(FileStamp, ChangesWithWhatIsWrittenAddedOrTakenAway) {
  const std::string before = stamp_files(directory);
  write("a", "longer");
  const std::string written = stamp_files(directory);
  EXPECT_NE(written, before);
  write("c", "");
  const std::string added = stamp_files(directory);
  EXPECT_NE(added, written);
  fs::remove(directory / "b");
  EXPECT_NE(stamp_files(directory), added);
}

TEST_F(FileStamp, ChangesWithAFileThatTakesThePlaceOfAnotherOfItsSizeAndTime) {
  const std::string before = stamp_files(directory);
  write("new", "ONE");
  fs::last_write_time(directory / "new", fs::last_write_time(directory / "a"));
  fs::rename(directory / "new", directory / "a");
  EXPECT_NE(stamp_files(directory), before);
}

TEST_F(FileStamp, IsEmptyWhereThereIsNoDirectory) {
  EXPECT_EQ(stamp_files(directory / "a"), "");
  EXPECT_EQ(stamp_files(directory / "nothing"), "");
}

}  // namespace
}  // namespace tutti
