#!/usr/bin/env bash
# scripts/build-caf.sh PREFIX [FLAG...]
# Builds Debian's CAF from its source with flags of the compiler, and installs it in PREFIX, for what has to be in a
# library too to tell the truth: ThreadSanitizer sees races everywhere where actors meet through code that it cannot see.
# Does nothing where it was done. Needs what `scripts/install-deps.sh` installs.
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2s/^# /usage: /p' "$0" >&2; exit 2; }
prefix=$(realpath -m "$1")
shift
[ ! -e "$prefix/done" ] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# The machine's own package sources, asked for source, without touching its configuration.
mkdir -p sources lists/partial cache/archives/partial
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
  [ ! -f "$list" ] || sed 's/^deb /deb-src /; s/^Types: *deb$/Types: deb-src/' "$list" >"sources/$(basename "$list")"
done
apt=(-qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/sources" -o Dir::State::lists="$work/lists"
  -o Dir::Cache="$work/cache" -o APT::Sandbox::User=)
apt-get "${apt[@]}" update
apt-get "${apt[@]}" source --download-only --tar-only actor-framework >/dev/null
mkdir source
tar -xf actor-framework_*.orig.tar.* -C source --strip-components 1

# -include limits: a header of it uses what it does not include.
cmake -S source -B build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1 -DNDEBUG" -DCMAKE_CXX_FLAGS="-include limits $*" -DCMAKE_INSTALL_PREFIX="$prefix" \
  -DCAF_NO_EXAMPLES=yes -DCAF_NO_TOOLS=yes -DCAF_NO_UNIT_TESTS=yes -DCAF_NO_OPENCL=yes -DCAF_NO_PYTHON=yes >/dev/null
cmake --build build -j"${JOBS:-$(nproc)}" --target install >"$work/log" || { tail -50 "$work/log" >&2; exit 1; }
touch "$prefix/done"
