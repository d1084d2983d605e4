#pragma once

#include <string>

#include "tests/config/temp_directory.hpp"

namespace tutti {

/// A self-signed certificate for "localhost" and its key, in files that are gone with it.
class TestCertificate {
 public:
  /// Valid from now on for so many seconds; fewer than none is expired.
  explicit TestCertificate(long valid_seconds = 3600);

  [[nodiscard]] std::string certificate_file() const { return folder_.path() / "certificate.pem"; }
  [[nodiscard]] std::string key_file() const { return folder_.path() / "key.pem"; }
  /// The same key under a password.
  [[nodiscard]] std::string encrypted_key_file() const { return folder_.path() / "encrypted.pem"; }

 private:
  test::TempDirectory folder_;
};

}  // namespace tutti
