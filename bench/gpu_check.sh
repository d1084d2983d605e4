#!/usr/bin/env bash
# Settles on a machine with an NVIDIA GPU what the tests cannot without one: runs the conformance suite (row equality among
# it) and the engine's tests (ticks as graphs against ticks queued piece by piece, snapshots) on the GPU, compares with every
# reference file, and with one of them in every type, runs a small part of the suite under compute-sanitizer, measures the
# engine at widths from 1 to 512 and each of its operations against what its arithmetic or its bytes take at least, and serves
# real-time clients from one GPU, and from two where there are so many. bench/gpu_report.py judges, prints a table and writes
# OUT/gpu_check.json.
#
# bench/gpu_check.sh [OUT]          OUT defaults to build/gpu_check
# Environment:
#   GPU=0            which
#   BIN=             what scripts/gpu-bundle.sh has made, a folder or its .tar.gz, instead of building: needs python3, curl
#                    and a glibc that is not older than the one it was built with
#   CMAKE_ARGS=      for the build
#   REFERENCES=      "MODEL:GOLDEN ..." to be compared with, too
#
# An estimate, not a measurement: 5 to 7 minutes on 16 cores and an H200, without the build. Tests, references
# and compute-sanitizer run at once, 150 s at most. Then each of 12 processes takes 3 to 10 s of one core (an AMD EPYC's, of 2019)
# to make a model and reference results, 80 s in all; 44 widths take 1 s each, 26 of them another for their operations, and
# some half a second for an engine, and those with fewer than 200 ticks a second longer: 150 s. Servers take 20 s.
set -euo pipefail
cd "$(dirname "$0")/.."

gpu=${GPU:-0}
device=cuda:$gpu
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

mkdir -p "$out"
rm -rf "${out:?}"/{bin,*.log,*.json,*.txt}
step() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }
# try NAME SECONDS COMMAND...: for so long at most; OUT/NAME.log is what it says and, in the last line, its exit status.
try() {
  local log=$out/$1.log limit=$2 status=0
  shift 2
  timeout -k 5 "$limit" "$@" > "$log" 2>&1 || status=$?
  echo "exit $status" >> "$log"
}

if [ -n "${BIN:-}" ]; then
  bin=$(realpath "$BIN")
  if [ -f "$bin" ]; then
    mkdir "$out/bin"
    tar -xzf "$bin" -C "$out/bin" --strip-components=1
    bin=$out/bin
  fi
else
  step build
  build=build/gpu
  generator=(); if command -v ninja > /dev/null; then generator=(-G Ninja); fi
  # shellcheck disable=SC2086
  cmake -S . -B $build "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DTUTTI_CUDA=ON ${CMAKE_ARGS:-} > "$out/build.log" 2>&1
  cmake --build $build -j"$(nproc)" --target tutti gpu_conformance_test cuda_engine_test >> "$out/build.log" 2>&1 \
    || { tail -20 "$out/build.log"; exit 1; }
  bin=$PWD/$build/bin
fi
# Before a program: for its libraries, the device, and the data of tests that were built elsewhere.
with=(env "LD_LIBRARY_PATH=$bin/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "TUTTI_TEST_DATA=$PWD/tests/data")
with_this_gpu=("${with[@]}" "CUDA_VISIBLE_DEVICES=$gpu")
tutti=("${with[@]}" "$bin/tutti")

# At once: they keep the CPU busier than the GPU, and nothing is measured.
step "tests, references, compute-sanitizer"
on_gpu='*/Cuda:*/Cuda_*'
try conformance 150 "${with_this_gpu[@]}" "$bin/gpu_conformance_test" --gtest_filter="$on_gpu" \
  --gtest_output="json:$out/conformance.json" &
try engine-tests 150 "${with_this_gpu[@]}" "$bin/cuda_engine_test" --gtest_filter="$on_gpu" \
  --gtest_output="json:$out/engine-tests.json" &
golden=golden.safetensors
for model in tests/data/*/"$golden"; do
  model=$(dirname "$model")
  try "verify-$(basename "$model")" 100 "${tutti[@]}" verify "$model" "$model/$golden" --device "$device" &
done
for pair in ${REFERENCES:-}; do
  try "verify-$(basename "${pair%%:*}")" 100 "${tutti[@]}" verify "${pair%%:*}" "${pair#*:}" --device "$device" &
done
model=tests/data/conformer-bn-tiny
for weights in bf16 fp16 int8 fp8; do
  try "weights-$weights" 100 "${tutti[@]}" verify $model $model/$golden --device "$device" --weights $weights &
done
sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer || true)
# Each kernel, in the smallest test that runs it.
small=
for test in LayerNormConformance.Matches FbankConformance.GivesAFrame MeanConformance Cmvn Tokens \
  LogSoftmaxConformance.Names CtcSearchConformance.GoesOn ExtendConformance \
  ConvModuleConformance.GivesARowTheSameBitsInOneChunk LinearConformance.KeepsNonFinite GemmTensor.KeepsNonFinite \
  GemmTensor.TakesRows SubsamplingConformance.MatchesADoubleReferenceForWindows AttentionConformance.Matches \
  DecoderConformance.GivesALane IndexingConformance; do
  small+="*/$test*/Cuda:*/$test*/Cuda_*:"
done
if [ -n "$sanitizer" ]; then
  for tool in memcheck racecheck synccheck initcheck; do
    try "sanitizer-$tool" 150 "$sanitizer" --tool $tool --error-exitcode 9 --target-processes all \
      "${with_this_gpu[@]}" "$bin/gpu_conformance_test" --gtest_filter="$small" &
  done
fi
wait

step engine
for model in 12x256x2048h4v5000 12x512x2048h8v5000; do
  for weights in bf16 fp32 fp16 int8 fp8; do
    widths=1,64,512
    if [ $weights = bf16 ]; then widths=1,2,4,8,16,32,64,128,256,512; fi
    breakdown=()
    case $weights in bf16 | fp32) breakdown=(--breakdown) ;; esac
    try "bench-$model-$weights" 90 "${tutti[@]}" bench engine --device "$device" --synthetic $model --weights $weights \
      --batch $widths "${breakdown[@]}" --seconds 1 --ticks 200 --json
  done
  # As in a server, whose streams are copied every 10 s of audio: 16 chunks.
  try "snapshots-$model" 60 "${tutti[@]}" bench engine --device "$device" --synthetic $model --weights bf16 --batch 64 \
    --snapshots 16 --seconds 1 --ticks 200 --json
done

# serve NAME DEVICES: real-time clients of a server on these, and what it counts.
serve() {
  local port=$((20000 + RANDOM % 20000)) status=0
  "${tutti[@]}" serve --model models/tutti-en-mini --device "$2" --weights bf16 --max-streams 512 --max-batch-size 512 \
    --bind "127.0.0.1:$port" --snapshot-ms 1000 2> "$out/$1-server.txt" &
  local server=$!
  for _ in $(seq 100); do curl -fso /dev/null "http://127.0.0.1:$port/readyz" && break; sleep 0.2; done
  try "$1" 30 "${tutti[@]}" bench load --url "ws://127.0.0.1:$port" --audio tests/data/speech --streams 128 --seconds 5 --json
  curl -fs "http://127.0.0.1:$port/metrics" > "$out/$1-metrics.txt" || status=$?
  kill $server
  wait $server || status=$?
  [ $status = 0 ] || echo "exit $status" >> "$out/$1.log"
}
step server
serve server-1 "$device"
if [ "$gpus" -gt 1 ]; then serve server-2 "$device,cuda:$((gpu == 0 ? 1 : 0))"; fi

step report
python3 bench/gpu_report.py "$out" "$gpu" "$SECONDS" | tee "$out/table.txt"
