#include "app/bundled_model.hpp"

#include "config/result.hpp"

namespace tutti {

std::filesystem::path model_directory(const std::string& given) {
  if (!given.empty()) return given;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::string tried;
  for (const char* relative : {"../share/tutti/models/tutti-en-mini", "../../../models/tutti-en-mini"}) {
    const std::filesystem::path candidate = (program / relative).lexically_normal();
    if (std::filesystem::is_directory(candidate)) return candidate;
    tried += (tried.empty() ? "" : ", ") + candidate.string();
  }
  throw SetupError("the bundled model is not where it is expected (" + tried +
                   "); name one with --model DIR");
}

}  // namespace tutti
