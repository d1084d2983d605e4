#include "cluster/credentials.hpp"

#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include "config/certificate.hpp"
#include "config/result.hpp"

namespace tutti {
namespace {

using Store = std::unique_ptr<X509_STORE, OpensslDeleter<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, OpensslDeleter<X509_STORE_CTX_free>>;

[[noreturn]] void refuse(std::string_view option, const std::string& file, std::string_view why) {
  throw SetupError(fmt::format("{} = {}: {}", option, file.empty() ? "\"\"" : file, why));
}

std::string read(std::string_view option, const std::string& file) {
  if (file.empty()) {
    refuse(option, file,
           "is needed: processes of a cluster know each other by certificates of an authority of their own "
           "(cluster.certificate, cluster.key, cluster.ca; docs/cluster.md says how they are made)");
  }
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) refuse(option, file, std::generic_category().message(errno));
  std::string text(std::istreambuf_iterator<char>(stream), {});
  if (text.empty()) refuse(option, file, "is empty");
  return text;
}

Bio memory(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::vector<Certificate> certificates(std::string_view option, const std::string& file,
                                      const std::string& text) {
  const Bio bio = memory(text);
  std::vector<Certificate> all;
  while (X509* const next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) all.emplace_back(next);
  if (all.empty()) refuse(option, file, "holds no PEM certificate; expected -----BEGIN CERTIFICATE-----");
  return all;
}

void check_key(const ClusterCredentials& paths, const std::string& text, X509* certificate) {
  const Bio bio = memory(text);
  const PrivateKey key = read_private_key(bio.get());
  if (!key) {
    refuse("cluster.key", paths.key,
           "holds no PEM private key, or an encrypted one; expected -----BEGIN PRIVATE KEY-----");
  }
  if (X509_check_private_key(certificate, key.get()) != 1) {
    refuse("cluster.key", paths.key, fmt::format("is not the key of the certificate {}", paths.certificate));
  }
}

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error);
}

void check_own_authority(const std::string& file, const std::vector<Certificate>& authorities) {
  constexpr std::string_view own =
      "whoever has a certificate of one of them would belong to the cluster; "
      "make an authority of its own (docs/cluster.md)";
  for (const char* const system : {X509_get_default_cert_file(), "/etc/ssl/certs/ca-certificates.crt",
                                   "/etc/pki/tls/certs/ca-bundle.crt"}) {
    if (is_same_file(file, system))
      refuse("cluster.ca", file, fmt::format("is the system's list of authorities: {}", own));
  }
  if (std::ssize(authorities) > max_authorities) {
    refuse("cluster.ca", file,
           fmt::format("holds {} authorities, as the list of the public ones does, and may hold {}: {}",
                       authorities.size(), max_authorities, own));
  }
}

/// As a peer will.
void verify(const ClusterCredentials& paths, const std::vector<Certificate>& chain,
            const std::vector<Certificate>& authorities) {
  const Store store(X509_STORE_new());
  for (const Certificate& authority : authorities) X509_STORE_add_cert(store.get(), authority.get());
  STACK_OF(X509)* const others = sk_X509_new_null();
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(others, chain[i].get());
  const StoreContext context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), others);
  const bool good = X509_verify_cert(context.get()) == 1;
  const std::string why = X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
  sk_X509_free(others);
  if (!good) {
    refuse("cluster.certificate", paths.certificate,
           fmt::format("would not be accepted with cluster.ca = {}: {}", paths.ca, why));
  }
}

}  // namespace

ClusterIdentity::ClusterIdentity(const ClusterCredentials& credentials) {
  const std::string certificate = read("cluster.certificate", credentials.certificate);
  const std::string key = read("cluster.key", credentials.key);
  const std::string ca = read("cluster.ca", credentials.ca);
  const auto chain = certificates("cluster.certificate", credentials.certificate, certificate);
  const auto authorities = certificates("cluster.ca", credentials.ca, ca);
  check_own_authority(credentials.ca, authorities);
  check_key(credentials, key, chain.front().get());
  verify(credentials, chain, authorities);
  description_ = describe(chain.front().get());
  files_ = {.certificate = copy("cluster.certificate", certificate),
            .key = copy("cluster.key", key),
            .ca = copy("cluster.ca", ca)};
}

ClusterIdentity::~ClusterIdentity() {
  for (const int descriptor : descriptors_) {
    if (descriptor >= 0) close(descriptor);
  }
}

std::string ClusterIdentity::copy(const std::string& name, const std::string& text) {
  const int descriptor = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (descriptor < 0) throw SetupError(fmt::format("{}: {}", name, std::generic_category().message(errno)));
  descriptors_[copies_++] = descriptor;
  if (write(descriptor, text.data(), text.size()) != std::ssize(text)) {
    throw SetupError(fmt::format("{}: {}", name, std::generic_category().message(errno)));
  }
  return fmt::format("/proc/self/fd/{}", descriptor);
}

}  // namespace tutti
