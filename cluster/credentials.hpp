#pragma once

#include <string>

namespace tutti {

/// How a process shows the others of its cluster who it is, and knows them: files in PEM.
struct ClusterCredentials {
  std::string certificate;  ///< this process's, and its chain
  std::string key;          ///< of the certificate
  std::string ca;           ///< the cluster's own authority; who has its signature belongs to the cluster
};

/// More than these in the file of the authority is taken for a list of the public ones.
inline constexpr int max_authorities = 4;

/// Copies of the files, as they were when they were checked: connections are made all the time, and a file
/// that is being replaced must not fail one. The paths are those of this process alone.
class ClusterIdentity {
 public:
  /// Throws SetupError where TLS would not do what it is for: a file is missing, empty or not PEM, the key is
  /// not the certificate's, the certificate is expired or not signed by the authority, or that is the
  /// system's.
  explicit ClusterIdentity(const ClusterCredentials& credentials);
  ~ClusterIdentity();
  ClusterIdentity(const ClusterIdentity&) = delete;
  ClusterIdentity& operator=(const ClusterIdentity&) = delete;

  [[nodiscard]] const ClusterCredentials& files() const { return files_; }
  /// "CN=engine-1, valid until 2030-01-31"
  [[nodiscard]] const std::string& description() const { return description_; }

 private:
  [[nodiscard]] std::string copy(const std::string& name, const std::string& text);

  int descriptors_[3] = {-1, -1, -1};
  int copies_ = 0;
  ClusterCredentials files_;
  std::string description_;
};

}  // namespace tutti
