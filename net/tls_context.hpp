#pragma once

#include <boost/asio/ssl/context.hpp>

namespace tutti {

/// What a TLS connection begins with: certificate, key and what is accepted.
using TlsContext = boost::asio::ssl::context;

}  // namespace tutti
