#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/targets.hpp"

namespace tutti {
namespace {

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

class KnownInputs : public testing::TestWithParam<std::string> {
 protected:
  /// Of a folder of inputs, in the name of this test's target.
  void run_all(const std::filesystem::path& folder) {
    const FuzzTarget& target = *find_fuzz_target(GetParam());
    for (const auto& path : files_in(folder)) {
      SCOPED_TRACE(path.string());
      std::ifstream file(path, std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      EXPECT_NO_THROW(target.run(std::as_bytes(std::span(bytes))));
      ++count_;
    }
  }
  int count_ = 0;
};

TEST_P(KnownInputs, KeepTheRules) {
  run_all(std::string(TUTTI_FUZZ_INPUTS) + "/" + GetParam());
  EXPECT_GT(count_, 0) << "there are no seeds";
  // Those of other dialects make little sense to it, which it has to live with.
  if (GetParam().starts_with("dialect-")) run_all(TUTTI_CONVERSATIONS);
}

INSTANTIATE_TEST_SUITE_P(Targets, KnownInputs, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const FuzzTarget& target : fuzz_targets()) names.push_back(target.name);
                           return names;
                         }()),
                         [](const auto& target) {
                           std::string name = target.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(FuzzTargets, HaveEachFolderOfInputs) {
  for (const auto& folder : files_in(TUTTI_FUZZ_INPUTS)) {
    EXPECT_NE(find_fuzz_target(folder.filename().string()), nullptr) << folder;
  }
}

}  // namespace
}  // namespace tutti
