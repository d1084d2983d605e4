#!/usr/bin/env bash
# Settles on a machine with an NVIDIA GPU what the tests cannot without one, in less than 8 minutes on 16 cores: builds,
# runs the conformance suite (row equality among it) and the small part of it under compute-sanitizer, compares with every
# reference file, measures the engine at widths from 1 to 512 and with its streams copied as it goes on, and serves real-time
# clients from one GPU, and from two where there are so many. Prints a table; writes it and gpu_check.json to OUT.
#
# bench/gpu_check.sh [OUT]          OUT defaults to build/gpu_check
# Environment: GPU=0  SECONDS_EACH=1  CMAKE_ARGS=  REFERENCES="MODEL:GOLDEN ..." to be compared with, too
set -euo pipefail
cd "$(dirname "$0")/.."

gpu=${GPU:-0}
device=cuda:$gpu
build=build/gpu
out=$(realpath -m "${1:-build/gpu_check}")

gpus=$(python3 - "$gpu" << 'PYTHON'
import ctypes
import sys

def stop(why):
    sys.exit(f"gpu_check: {why}")

try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError:
    stop("no NVIDIA driver is installed (libcuda.so.1 was not found)")
if error := driver.cuInit(0):
    stop(f"the NVIDIA driver does not start (error {error})")
count = ctypes.c_int()
driver.cuDeviceGetCount(ctypes.byref(count))
if int(sys.argv[1]) >= count.value:
    stop(f"the NVIDIA driver has {count.value} GPUs, and number {sys.argv[1]} is asked for")
print(count.value)
PYTHON
) || exit 1

# Two to serve from, where there are so many.
two=
if [ "$gpus" -gt 1 ]; then two=$device,cuda:$((gpu == 0 ? 1 : 0)); fi

mkdir -p "$out"
step() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }
failed=()

step build
generator=(); if command -v ninja > /dev/null; then generator=(-G Ninja); fi
# shellcheck disable=SC2086
cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DTUTTI_CUDA=ON ${CMAKE_ARGS:-} > "$out/build.log" 2>&1
cmake --build "$build" -j"$(nproc)" --target tutti gpu_conformance_test >> "$out/build.log" 2>&1 \
  || { tail -20 "$out/build.log"; exit 1; }
tutti=$build/bin/tutti
conformance=$(find "$build" -name gpu_conformance_test -type f -perm -u+x | head -1)

step conformance
CUDA_VISIBLE_DEVICES=$gpu "$conformance" --gtest_filter='*/Cuda:*/Cuda_*' --gtest_output="json:$out/conformance.json" \
  > "$out/conformance.log" || failed+=(conformance)
tail -3 "$out/conformance.log"

step references
: > "$out/verify.tsv"
references=(); for golden in tests/data/*/golden.safetensors; do references+=("$(dirname "$golden"):$golden"); done
for pair in "${references[@]}" ${REFERENCES:-}; do
  status=pass
  "$tutti" verify "${pair%%:*}" "${pair#*:}" --device "$device" > "$out/verify.log" || { status=FAIL; failed+=("${pair#*:}"); }
  printf '%s\t%s\n' "${pair#*:}" "$status" | tee -a "$out/verify.tsv"
  if [ "$status" = FAIL ]; then grep FAILED "$out/verify.log" || true; fi
done

step types
# What log-probabilities may differ by: three times what they do where the kernels are executed on the host.
declare -A most=([bf16]=0.3 [fp16]=0.03 [int8]=1.5 [fp8]=3.6)
types=(fp32)
for weights in bf16 fp16 int8 fp8; do
  if ! "$tutti" verify "${references[0]%%:*}" "${references[0]#*:}" --device "$device" --weights "$weights" \
      > "$out/verify-$weights.log" 2>&1; then
    status=FAIL
    if grep -q 'are not for' "$out/verify-$weights.log"; then status="not on this GPU"; fi
  else
    types+=("$weights")
    status=$(sed -n 's/^weights .* differ by \(.*\) at most$/\1/p' "$out/verify-$weights.log")
    awk -v is="$status" -v most="${most[$weights]}" 'BEGIN { exit !(is + 0 <= most) }' || status="FAIL: $status"
  fi
  case $status in FAIL*) failed+=("weights $weights") ;; esac
  printf 'weights %s\t%s\n' "$weights" "$status" | tee -a "$out/verify.tsv"
done

step compute-sanitizer
: > "$out/sanitizer.tsv"
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2> /dev/null | head -1 || true)
if [ -n "$sanitizer" ]; then
  for tool in memcheck racecheck synccheck; do
    status=pass
    CUDA_VISIBLE_DEVICES=$gpu timeout 45 "$sanitizer" --tool "$tool" --error-exitcode 9 "$conformance" \
      --gtest_filter='*Attention*/Cuda:*Conv*/Cuda:*Softmax*/Cuda:*Fbank*/Cuda:*Indexing*/Cuda:*Decoder*/Cuda:*GemmTensor.Sums*/Cuda_*' \
      > "$out/sanitizer-$tool.log" 2>&1 || status=$?
    case $status in
      pass) ;;
      124) status="nothing found in 45 s" ;;
      *) status=FAIL; failed+=("$tool") ;;
    esac
    printf '%s\t%s\n' "$tool" "$status" | tee -a "$out/sanitizer.tsv"
  done
else
  echo "compute-sanitizer is not installed"
fi

step engine
: > "$out/bench.jsonl"
for model in 12x256x2048h4v5000 12x512x2048h8v5000; do
  for weights in "${types[@]}"; do
    widths=(1 64 512)
    if [ "$weights" = bf16 ]; then widths=(1 2 4 8 16 32 64 128 256 512); fi
    for width in "${widths[@]}"; do
      figures=$("$tutti" bench engine --device "$device" --synthetic "$model" --weights "$weights" --batch "$width" \
        --seconds "${SECONDS_EACH:-1}" --json 2> "$out/bench.log") || { tail -1 "$out/bench.log"; failed+=("$model $weights $width"); continue; }
      printf '{"model": "%s", "weights": "%s", "width": %d, "figures": %s}\n' "$model" "$weights" "$width" "$figures" \
        >> "$out/bench.jsonl"
    done
    case $weights in fp32 | fp16 | int8) continue ;; esac
    "$tutti" bench engine --device "$device" --synthetic "$model" --weights "$weights" --batch 64 --breakdown \
      --seconds "${SECONDS_EACH:-1}" > "$out/breakdown-$model-$weights.txt" 2> "$out/bench.log" || true
  done
done

# As in a server, whose streams are copied every 10 s of audio: 16 chunks.
step snapshots
: > "$out/snapshots.jsonl"
for model in 12x256x2048h4v5000 12x512x2048h8v5000; do
  for chunks in 0 16; do
    figures=$("$tutti" bench engine --device "$device" --synthetic "$model" --weights bf16 --batch 64 \
      --snapshots "$chunks" --seconds "${SECONDS_EACH:-1}" --json 2> "$out/bench.log") \
      || { tail -1 "$out/bench.log"; failed+=("$model snapshots"); continue; }
    printf '{"model": "%s", "chunks": %d, "figures": %s}\n' "$model" "$chunks" "$figures" >> "$out/snapshots.jsonl"
  done
done

# Real-time clients of a server on one GPU, and on two where there are so many.
step server
: > "$out/server.tsv"
for devices in "$device" "$two"; do
  [ -n "$devices" ] || { echo "two GPUs: skipped, there is one"; continue; }
  port=$((20000 + RANDOM % 20000))
  "$tutti" serve --device "$devices" --bind "127.0.0.1:$port" --snapshot-ms 1000 2> "$out/serve.log" &
  server=$!
  for _ in $(seq 100); do curl -fs "http://127.0.0.1:$port/readyz" > "$out/readyz" && break; sleep 0.3; done
  status=pass
  "$tutti" bench load --url "ws://127.0.0.1:$port" --audio tests/data/speech --streams 64 --seconds 5 --json \
    > "$out/load.json" 2> "$out/bench.log" || status=FAIL
  curl -fs "http://127.0.0.1:$port/metrics" > "$out/metrics.txt" || status=FAIL
  kill "$server"; wait "$server" || status=FAIL
  grep '^tutti_device' "$out/metrics.txt" || status=FAIL
  for each in ${devices//,/ }; do
    grep -q "^tutti_device_allocations_total{device=\"$each\"} 0\$" "$out/metrics.txt" || status=FAIL
    grep -q "^tutti_device_forwards_total{device=\"$each\",how=\"graph\"} [1-9]" "$out/metrics.txt" || status=FAIL
  done
  [ "$status" = pass ] || failed+=("server on $devices")
  printf '%s\t%s\n' "$devices" "$status" | tee -a "$out/server.tsv"
done

step report
python3 bench/gpu_report.py "$out" "$gpu" "$SECONDS" | tee "$out/table.txt"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}"
  exit 1
fi
