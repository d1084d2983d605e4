#!/usr/bin/env bash
# Installs the Debian 12 packages that building Tutti needs and that are not there yet; says nothing when all are.
# With --tests also those that only the tests use, with --fuzz those of the fuzzer, with --neon a cross compiler for ARM
# with the libraries that the kernels use, and with --avx512 an emulator.
set -euo pipefail

packages=(
  g++ cmake ninja-build make pkg-config ccache git python3 clang-format dpkg-dev file
  libboost1.81-dev libboost-context1.81-dev libcaf-dev libcjose-dev libcli11-dev libdnnl-dev libexpected-dev libfmt-dev libgmock-dev
  libgtest-dev libhwy-dev
  libogg-dev libopus-dev libsimdjson-dev libsndfile1-dev libspdlog-dev libspeexdsp-dev libssl-dev libtomlplusplus-dev libwebm-dev
  libyaml-cpp-dev libzip-dev prometheus-cpp-dev
)
case "${1:-}" in
  "") ;;
  --tests)
    packages+=(chromium haproxy nginx-light openssl prometheus python3-numpy python3-websockets python3-yaml systemd)
    # A Node.js of another origin is as good.
    command -v node >/dev/null || packages+=(nodejs)
    command -v npm >/dev/null || packages+=(npm)
    ;;
  --fuzz) packages+=(clang) ;;
  --neon)
    packages+=(g++-aarch64-linux-gnu qemu-user-static)
    for library in libfmt-dev libgmock-dev libgtest-dev libhwy-dev libogg-dev libopus-dev libsndfile1-dev libspdlog-dev \
      libspeexdsp-dev libtomlplusplus-dev libwebm-dev libgomp1 libstdc++6; do
      packages+=("$library:arm64")
    done
    ;;
  --avx512) packages+=(bochs bochsbios cpio isolinux syslinux-common xorriso) ;;
  *)
    echo "usage: $0 [--tests | --fuzz | --neon | --avx512]" >&2
    exit 2
    ;;
esac

installed=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n${db:Status-Abbrev}${Package}:${Architecture}\n' "${packages[@]}" 2>/dev/null |
  sed -n 's/^ii *//p' || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

. /etc/os-release
if [ "${ID:-}" != debian ] || [ "${VERSION_ID:-}" != 12 ]; then
  echo "error: only Debian 12 can be set up automatically, this is ${PRETTY_NAME:-unknown}." \
    "Install what these packages hold, then use 'make build': ${missing[*]}" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "error: installing packages needs root or sudo. Missing: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing ${#missing[@]} packages: ${missing[*]}"
[ "${1:-}" != --neon ] || "${as_root[@]}" dpkg --add-architecture arm64
"${as_root[@]}" apt-get -qq update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get -qq -o Dpkg::Use-Pty=0 install --no-install-recommends -y "${missing[@]}" >/dev/null
