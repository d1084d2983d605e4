#pragma once

#include <string>

namespace tutti {

/// A self-signed certificate for "localhost" and its key, in files that are gone with it.
class TestCertificate {
 public:
  /// Valid from now on for so many seconds; fewer than none is expired.
  explicit TestCertificate(long valid_seconds = 3600);
  TestCertificate(const TestCertificate&) = delete;
  TestCertificate& operator=(const TestCertificate&) = delete;
  ~TestCertificate();

  [[nodiscard]] std::string certificate_file() const { return folder_ + "/certificate.pem"; }
  [[nodiscard]] std::string key_file() const { return folder_ + "/key.pem"; }
  /// The same key under a password.
  [[nodiscard]] std::string encrypted_key_file() const { return folder_ + "/encrypted.pem"; }

 private:
  std::string folder_;
};

}  // namespace tutti
