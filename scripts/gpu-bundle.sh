#!/usr/bin/env bash
# Collects what bench/gpu_check.sh runs, for a machine where it cannot be built: the program, the tests and the CUDA plugin,
# stripped, with the shared libraries that they need in lib/; and the same as DIR.tar.gz. Beside them that machine needs an
# NVIDIA driver, a checkout, python3, curl and a glibc that is not older than this one's.
#
# scripts/gpu-bundle.sh [BUILD [DIR]]      BUILD defaults to build/release, DIR to build/gpu_bundle
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
dir=${2:-build/gpu_bundle}

rm -rf "$dir" "$dir.tar.gz"
mkdir -p "$dir/lib"
for file in tutti gpu_conformance_test cuda_engine_test libtutti_cuda.so; do
  strip -o "$dir/$file" "$build/bin/$file"
done
# Those of glibc go with the machine's loader.
ldd "$dir"/tutti "$dir"/*_test "$dir"/*.so | awk '$2 == "=>" { print $3 }' | sort -u \
  | grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*)\.so' | while read -r library; do
  strip -o "$dir/lib/$(basename "$library")" "$library"
done
tar -czf "$dir.tar.gz" -C "$(dirname "$dir")" "$(basename "$dir")"
du -sh "$dir" "$dir.tar.gz"
