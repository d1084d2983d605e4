#include "tests/cluster/test_authority.hpp"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <stdexcept>

namespace tutti::test {
namespace {

X509* signed_certificate(EVP_PKEY* subject_key, const std::string& name, X509* issuer, EVP_PKEY* issuer_key,
                         long valid_seconds) {
  static long serial = 0;
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -7200);
  X509_gmtime_adj(X509_getm_notAfter(certificate), valid_seconds);
  X509_set_pubkey(certificate, subject_key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer == nullptr ? certificate : issuer));
  if (issuer == nullptr) {
    X509_EXTENSION* const is_authority =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE");
    X509_add_ext(certificate, is_authority, -1);
    X509_EXTENSION_free(is_authority);
  }
  if (X509_sign(certificate, issuer_key, EVP_sha256()) == 0) throw std::runtime_error("cannot sign");
  return certificate;
}

void write(const std::string& path, X509* certificate) {
  BIO* const file = BIO_new_file(path.c_str(), "w");
  if (PEM_write_bio_X509(file, certificate) != 1) throw std::runtime_error("cannot write " + path);
  BIO_free(file);
}

void write(const std::string& path, EVP_PKEY* key) {
  BIO* const file = BIO_new_file(path.c_str(), "w");
  if (PEM_write_bio_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    throw std::runtime_error("cannot write " + path);
  }
  BIO_free(file);
}

}  // namespace

TestAuthority::TestAuthority(const std::string& name) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = signed_certificate(key, name, nullptr, key, 3600);
  key_ = key;
  certificate_ = certificate;
  write(path("ca.pem"), certificate);
}

TestAuthority::~TestAuthority() {
  EVP_PKEY_free(static_cast<EVP_PKEY*>(key_));
  X509_free(static_cast<X509*>(certificate_));
}

ClusterCredentials TestAuthority::credentials(const std::string& name, long valid_seconds) const {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = signed_certificate(key, name, static_cast<X509*>(certificate_),
                                               static_cast<EVP_PKEY*>(key_), valid_seconds);
  write(path(name + ".pem"), certificate);
  write(path(name + ".key"), key);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return {.certificate = path(name + ".pem"), .key = path(name + ".key"), .ca = path("ca.pem")};
}

std::string TestAuthority::file(const std::string& name, const std::string& text) const {
  return folder_.write(name, text);
}

}  // namespace tutti::test
