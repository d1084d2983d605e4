#pragma once

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>

namespace tutti {

/// What OpenSSL allocates, and how it is freed.
template <auto Free>
struct OpensslDeleter {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, OpensslDeleter<BIO_free>>;
using Certificate = std::unique_ptr<X509, OpensslDeleter<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, OpensslDeleter<EVP_PKEY_free>>;
using PublicKey = PrivateKey;
using BigNumber = std::unique_ptr<BIGNUM, OpensslDeleter<BN_free>>;

}  // namespace tutti
