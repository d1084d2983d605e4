#pragma once

#include <string>

#include "cluster/credentials.hpp"
#include "tests/config/temp_directory.hpp"

namespace tutti::test {

/// An authority of a cluster, and the certificates it signs, in files that are gone with it.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name = "test cluster");
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;
  ~TestAuthority();

  /// Of a process of that name; fewer seconds than none is an expired certificate.
  [[nodiscard]] ClusterCredentials credentials(const std::string& name, long valid_seconds = 3600) const;
  /// A file of the authority's folder with that text.
  [[nodiscard]] std::string file(const std::string& name, const std::string& text) const;

 private:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path() / name; }

  TempDirectory folder_;
  void* key_;          // EVP_PKEY
  void* certificate_;  // X509
};

}  // namespace tutti::test
