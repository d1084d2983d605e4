#!/usr/bin/env bash
# Fails where a source file is not as .clang-format wants it.
set -euo pipefail
cd "$(dirname "$0")/.."

git ls-files -z --cached --others --exclude-standard '*.hpp' '*.cpp' '*.cu' '*.cuh' |
  xargs -0 -r clang-format --dry-run -Werror
