#pragma once

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/pem.h>

#include <ctime>
#include <string>

#include "config/openssl_ptr.hpp"

namespace tutti {

/// The private key in what `pem` reads; null where there is none, or an encrypted one: OpenSSL would ask for
/// its password at the terminal.
[[nodiscard]] inline PrivateKey read_private_key(BIO* pem) {
  const auto no_password = [](char*, int, int, void*) { return -1; };
  return PrivateKey(PEM_read_bio_PrivateKey(pem, nullptr, no_password, nullptr));
}

/// "2027-01-31"
[[nodiscard]] inline std::string day(const ASN1_TIME* time) {
  std::tm date{};
  ASN1_TIME_to_tm(time, &date);
  return fmt::format("{:%Y-%m-%d}", date);
}

/// "CN=example.org, valid until 2027-01-31"
[[nodiscard]] inline std::string describe(const X509* certificate) {
  const Bio text(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(text.get(), X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
  char* begin = nullptr;
  const long size = BIO_get_mem_data(text.get(), &begin);
  return fmt::format("{}, valid until {}", std::string_view(begin, static_cast<size_t>(size)),
                     day(X509_get0_notAfter(certificate)));
}

}  // namespace tutti
