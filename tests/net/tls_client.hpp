#pragma once

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace tutti {

/// A client that speaks TLS and trusts one certificate.
class TlsClient {
 public:
  /// Throws when the handshake fails. `newest` is the newest version of TLS it speaks, 0 for any.
  TlsClient(const std::string& address, const std::string& trusted_file, int newest = 0)
      : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_load_verify_file(context_.get(), trusted_file.c_str());
    if (newest != 0) {
      // OpenSSL does not even offer TLS 1.1 above security level 0.
      SSL_CTX_set_security_level(context_.get(), 0);
      SSL_CTX_set_max_proto_version(context_.get(), newest);
    }
    stream_.reset(BIO_new_ssl_connect(context_.get()));
    BIO_set_conn_hostname(stream_.get(), address.c_str());
    if (BIO_do_handshake(stream_.get()) != 1) throw std::runtime_error("the handshake failed");
  }

  void send(const std::string& bytes) {
    BIO_write(stream_.get(), bytes.data(), static_cast<int>(bytes.size()));
  }

  /// Everything up to `end`, which it includes; throws when the connection ends before.
  [[nodiscard]] std::string read_until(const std::string& end) {
    std::string read;
    while (!read.ends_with(end)) {
      char byte = 0;
      if (BIO_read(stream_.get(), &byte, 1) != 1) throw std::runtime_error("ended after \"" + read + '"');
      read += byte;
    }
    return read;
  }

  /// Whether the server ended the connection with TLS's own goodbye, not by cutting it.
  [[nodiscard]] bool at_orderly_end() {
    char byte = 0;
    if (BIO_read(stream_.get(), &byte, 1) == 1) return false;
    SSL* ssl = nullptr;
    BIO_get_ssl(stream_.get(), &ssl);
    return (SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN) != 0;
  }

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  struct FreeAll {
    void operator()(BIO* bio) const { BIO_free_all(bio); }
  };
  std::unique_ptr<BIO, FreeAll> stream_;
};

}  // namespace tutti
