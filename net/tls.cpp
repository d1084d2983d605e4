#include "net/tls.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "config/certificate.hpp"
#include "config/result.hpp"

namespace tutti {
namespace {

[[noreturn]] void refuse(std::string_view option, const std::string& file, std::string_view why) {
  throw SetupError(fmt::format("{} {}: {}", option, file, why));
}

Bio open_file(std::string_view option, const std::string& file) {
  errno = 0;
  Bio bio(BIO_new_file(file.c_str(), "r"));
  if (!bio) refuse(option, file, std::generic_category().message(errno));
  return bio;
}

Certificate read_certificate(const std::string& file) {
  const Bio bio = open_file("certificate", file);
  Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (!certificate) {
    refuse(
        "certificate", file,
        "holds no PEM certificate; expected -----BEGIN CERTIFICATE-----, the server's first, then its chain");
  }
  return certificate;
}

PrivateKey read_key(const std::string& file) {
  const Bio bio = open_file("key", file);
  PrivateKey key = read_private_key(bio.get());
  if (!key) {
    refuse("key", file,
           "holds no PEM private key, or an encrypted one; expected -----BEGIN PRIVATE KEY-----");
  }
  return key;
}

std::string warning_about(const X509* certificate, const std::string& file) {
  const ASN1_TIME* const begin = X509_get0_notBefore(certificate);
  const ASN1_TIME* const end = X509_get0_notAfter(certificate);
  if (X509_cmp_current_time(end) < 0) {
    return fmt::format("certificate {}: expired on {}; clients will refuse it", file, day(end));
  }
  if (X509_cmp_current_time(begin) > 0) {
    return fmt::format("certificate {}: not valid before {}; clients will refuse it", file, day(begin));
  }
  return {};
}

/// What OpenSSL gave as the reason of its last failure.
std::string last_reason() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason == nullptr ? "OpenSSL does not accept it" : reason;
}

}  // namespace

TlsIdentity load_tls_identity(const std::string& certificate_file, const std::string& key_file) {
  const Certificate certificate = read_certificate(certificate_file);
  const PrivateKey key = read_key(key_file);
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    refuse("key", key_file, fmt::format("is not the key of the certificate {}", certificate_file));
  }

  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (!context) throw SetupError("TLS cannot be set up: " + last_reason());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // An idle session keeps no record buffers, 34 KB of them.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context.get(), certificate_file.c_str()) != 1) {
    refuse("certificate", certificate_file, last_reason());
  }
  if (SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1) refuse("key", key_file, last_reason());
  return {.context = std::move(context),
          .description = describe(certificate.get()),
          .warning = warning_about(certificate.get(), certificate_file)};
}

}  // namespace tutti
