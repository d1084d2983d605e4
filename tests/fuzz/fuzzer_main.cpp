#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/targets.hpp"

// One program for all targets: fuzzer --target=NAME [options of libFuzzer] [folders]; --list names them.

namespace {

const tutti::FuzzTarget* target = nullptr;

}  // namespace

/// Memory that was freed is kept back for less long than usual: an input is over soon.
extern "C" const char* __asan_default_options() { return "quarantine_size_mb=8"; }

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    constexpr std::string_view flag = "--target=";
    if (argument.starts_with(flag)) {
      target = tutti::find_fuzz_target(std::string(argument.substr(flag.size())));
    } else if (argument == "--list") {
      for (const auto& each : tutti::fuzz_targets()) std::puts(each.name.c_str());
      std::exit(0);
    }
  }
  if (target == nullptr) {
    std::fputs("usage: fuzzer --target=NAME [option...] [folder...]; --list names the targets\n", stderr);
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  target->run(std::as_bytes(std::span(data, size)));
  return 0;
}
