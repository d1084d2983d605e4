#include "cluster/error_queue.hpp"

#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "config/result.hpp"

namespace {

/// OpenSSL's own.
template <class Function>
Function* original(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int SSL_accept(SSL* ssl) {
  static const auto call = original<decltype(SSL_accept)>("SSL_accept");
  ERR_clear_error();
  return call(ssl);
}

int SSL_connect(SSL* ssl) {
  static const auto call = original<decltype(SSL_connect)>("SSL_connect");
  ERR_clear_error();
  return call(ssl);
}

int SSL_read(SSL* ssl, void* buffer, int size) {
  static const auto call = original<decltype(SSL_read)>("SSL_read");
  ERR_clear_error();
  return call(ssl, buffer, size);
}

int SSL_write(SSL* ssl, const void* buffer, int size) {
  static const auto call = original<decltype(SSL_write)>("SSL_write");
  ERR_clear_error();
  return call(ssl, buffer, size);
}

}  // extern "C"

namespace tutti {

void require_clean_error_queue() {
  if (dlsym(RTLD_DEFAULT, "SSL_read") == reinterpret_cast<void*>(&SSL_read)) return;
  throw SetupError("this build cannot be one of a cluster: its functions are not seen by CAF's library");
}

}  // namespace tutti
