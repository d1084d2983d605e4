#pragma once

#include <memory>
#include <string>

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace tutti {

/// What a listener that speaks TLS needs.
struct TlsIdentity {
  std::shared_ptr<ssl_ctx_st> context;
  std::string description;  ///< "CN=example.org, valid until 2030-01-31"
  std::string warning;      ///< of a certificate that clients will refuse, expired for one; else empty
};

/// Reads a certificate (PEM, with its chain behind it) and its key (PEM, not encrypted). TLS 1.2 and 1.3, no
/// renegotiation, no compression. Throws SetupError that names the file and what is wrong with it.
[[nodiscard]] TlsIdentity load_tls_identity(const std::string& certificate_file, const std::string& key_file);

}  // namespace tutti
