#!/usr/bin/env bash
# Fuzzes each target for some seconds, as many at a time as there are processors, and fails when one of them breaks a
# rule, crashes, hangs or takes too much memory. What it found interesting is kept in FOLDER/corpus and begun with the
# next time; what broke it is FOLDER/TARGET-crash-..., to be fixed, and added to tests/fuzz/inputs/TARGET.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -lt 2 ]; then
  echo "usage: $0 BUILD SECONDS [TARGET...]" >&2
  exit 2
fi
fuzzer=$1/bin/fuzzer
folder=$1/fuzz
seconds=$2
shift 2
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <("$fuzzer" --list)

# A message may have a megabyte, but what long ones do, short ones do too.
fuzz() {
  local fuzzer=$1 folder=$2 seconds=$3 target=$4
  local seeds=("tests/fuzz/inputs/$target")
  case $target in dialect-*) seeds+=(tests/proto/conversations) ;; esac
  mkdir -p "$folder/corpus/$target"
  if "$fuzzer" "--target=$target" -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=1024 \
    -malloc_limit_mb=256 -dict=tests/fuzz/words.dict -artifact_prefix="$folder/$target-" -entropic_scale_per_exec_time=1 -print_final_stats=1 \
    "$folder/corpus/$target" "${seeds[@]}" >"$folder/$target.log" 2>&1; then
    echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/$target.log") inputs"
  else
    echo "$target: FAILED" >&2
    tail -n 60 "$folder/$target.log" >&2
    return 1
  fi
}
export -f fuzz

mkdir -p "$folder"
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz "$@"' fuzz "$fuzzer" "$folder" "$seconds" {}
