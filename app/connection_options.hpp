#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tutti {

/// What a client needs to be let in and to trust whom it talks to.
struct ConnectionOptions {
  std::string api_key;
  std::string ca_file;
};

inline void add_connection_options(CLI::App& command, ConnectionOptions& options) {
  command.add_option("--api-key", options.api_key, "Sent as \"Authorization: Bearer KEY\"")->type_name("KEY");
  command
      .add_option("--ca-file", options.ca_file,
                  "For wss://: certificates (PEM) to trust beside those that the system trusts, such as that "
                  "of a server which signed its own")
      ->type_name("FILE");
}

}  // namespace tutti
