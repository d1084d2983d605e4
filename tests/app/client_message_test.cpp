#include "app/client_message.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(ClientMessage, SaysWhatHappenedAndWhatToLookAt) {
  const ClientUrl url{"127.0.0.1", "8080", "/"};
  EXPECT_EQ(describe({ClientEnd::Kind::unreachable, 0, "Connection refused"}, url),
            "cannot connect to 127.0.0.1:8080: Connection refused; is the server running?");
  EXPECT_EQ(
      describe({ClientEnd::Kind::untrusted, 0, "certificate verify failed"}, url),
      "no TLS with 127.0.0.1:8080: certificate verify failed; is its certificate for this name, and does "
      "the system or --ca-file trust it?");
  EXPECT_EQ(describe({ClientEnd::Kind::refused, 401, ""}, url),
            "127.0.0.1:8080 refused the connection with HTTP status 401");
  EXPECT_EQ(describe({ClientEnd::Kind::closed, 1001, "stopped"}, url),
            "127.0.0.1:8080 closed the connection before the end with code 1001: stopped");
  EXPECT_EQ(describe({ClientEnd::Kind::lost, 0, "End of file"}, url),
            "the connection to 127.0.0.1:8080 was lost: End of file");
}

}  // namespace
}  // namespace tutti
