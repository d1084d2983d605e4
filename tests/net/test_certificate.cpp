#include "tests/net/test_certificate.hpp"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>
#include <stdexcept>

namespace tutti {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using File = std::unique_ptr<BIO, decltype(&BIO_free)>;

Certificate self_signed(EVP_PKEY* key, long valid_seconds) {
  Certificate certificate(X509_new(), X509_free);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -7200);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), valid_seconds);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME* const name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"),
                             -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  if (X509_sign(certificate.get(), key, EVP_sha256()) == 0) throw std::runtime_error("cannot sign");
  return certificate;
}

File created(const std::string& path) { return {BIO_new_file(path.c_str(), "w"), BIO_free}; }

}  // namespace

TestCertificate::TestCertificate(long valid_seconds) {
  const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const Certificate certificate = self_signed(key.get(), valid_seconds);
  char password[] = "secret";
  if (PEM_write_bio_X509(created(certificate_file()).get(), certificate.get()) != 1 ||
      PEM_write_bio_PrivateKey(created(key_file()).get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) !=
          1 ||
      PEM_write_bio_PrivateKey(created(encrypted_key_file()).get(), key.get(), EVP_aes_128_cbc(), nullptr, 0,
                               nullptr, password) != 1) {
    throw std::runtime_error("cannot write to " + folder_.path().string());
  }
}

}  // namespace tutti
