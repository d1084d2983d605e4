#!/usr/bin/env python3
"""Makes one JSON file and a table of what bench/gpu_check.sh has found: gpu_report.py OUT GPU SECONDS."""
import json
import pathlib
import re
import subprocess
import sys

# Dense products of fp32, of 16 bits and of 8, in 1e12 operations a second, as NVIDIA states them.
PEAKS = {"H200": (67, 989, 1979), "H100": (67, 989, 1979), "A100": (19.5, 312, 624), "L40S": (91.6, 362, 733),
         "L4": (30.3, 121, 242), "A10": (31.2, 125, 250)}
PEAK_OF = {"fp32": 0, "bf16": 1, "fp16": 1, "int8": 2, "fp8": 2}
# A tick may take so long for 99 of 100.
MOST_MS = 100


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def gpu(index):
    query = ["nvidia-smi", f"--id={index}", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        name, driver, memory = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().split(", ")
    except (OSError, subprocess.CalledProcessError, ValueError):
        return {"name": "unknown"}
    return {"name": name, "driver": driver, "memory": memory}


def breakdown(path):
    row = re.compile(r"(.+?)\s+([\d.]+) ms per stream-chunk\s+([\d.]+) %")
    return {match[1]: {"ms_per_stream_chunk": float(match[2]), "percent": float(match[3])}
            for match in map(row.match, lines(path)) if match}


def carried(runs):
    """Streams in real time of the widest tick that stays below MOST_MS."""
    fit = [run for run in runs if run["figures"]["tick_ms_p99"] <= MOST_MS]
    return max((run["figures"]["streams_per_core"] for run in fit), default=0)


def main():
    out, index, seconds = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    report = {"gpu": gpu(index), "seconds": seconds}
    if (tests := out / "conformance.json").exists():
        suite = json.loads(tests.read_text())
        report["conformance"] = {key: suite[key] for key in ("tests", "failures", "disabled")}
    for name in ("verify", "sanitizer", "server"):
        report[name] = dict(line.split("\t") for line in lines(out / f"{name}.tsv"))
    report["engine"] = [json.loads(line) for line in lines(out / "bench.jsonl")]
    report["snapshots"] = [json.loads(line) for line in lines(out / "snapshots.jsonl")]
    report["breakdown"] = {path.stem.removeprefix("breakdown-"): breakdown(path)
                           for path in sorted(out.glob("breakdown-*.txt"))}

    peaks = next((peak for name, peak in PEAKS.items() if name in report["gpu"]["name"]), None)
    print(report["gpu"]["name"])
    print(f"{'model':<20} {'weights':<7} {'width':>5} {'p50 ms':>8} {'p99 ms':>8} {'streams':>8} {'TFLOP/s':>8} "
          f"{'of peak':>8} {'waits':>6} {'allocs':>6} {'GPU ms':>7} {'logprob':>9}")
    configurations = {}
    for run in report["engine"]:
        figures = run["figures"]
        configurations.setdefault((run["model"], run["weights"]), []).append(run)
        tera = figures["gemm_gflops"] / 1000
        share = f"{100 * tera / peaks[PEAK_OF[run['weights']]]:7.1f}%" if peaks else "       ?"
        print(f"{run['model']:<20} {run['weights']:<7} {run['width']:>5} {figures['tick_ms_p50']:>8.2f} "
              f"{figures['tick_ms_p99']:>8.2f} {figures['streams_per_core']:>8.0f} {tera:>8.2f} {share} "
              f"{figures['waits_per_tick']:>6.2f} {figures['allocations_per_tick']:>6.2f} {figures['device_ms']:>7.2f} "
              f"{figures['max_logprob_diff']:>9.1e}")
    report["streams_at_p99"] = {f"{model} {weights}": carried(runs) for (model, weights), runs in configurations.items()}
    for name, streams in report["streams_at_p99"].items():
        print(f"{name}: {streams:.0f} streams in real time with p99 ticks of at most {MOST_MS} ms")
    for run in report["snapshots"]:
        figures = run["figures"]
        copied = "copied never" if run["chunks"] == 0 else f"copied after every {run['chunks']} chunks"
        print(f"{run['model']} bf16, 64 streams {copied}: p50 {figures['tick_ms_p50']:.2f} ms, p99 {figures['tick_ms_p99']:.2f} "
              f"ms, {figures['waits_per_tick']:.2f} waits and {figures['allocations_per_tick']:.2f} allocations a tick, "
              f"{figures.get('snapshots_per_second', 0):.0f} copies and {figures.get('snapshot_mb_per_second', 0):.0f} MB a "
              f"second, {figures.get('postponed_per_tick', 0):.2f} postponed a tick")
    for devices, status in report["server"].items():
        print(f"64 real-time clients of a server on {devices}: {status}")
    for name, parts in report["breakdown"].items():
        print(f"{name}, ms of a stream's chunk at width 64, each operation waited for:")
        for part, figures in parts.items():
            print(f"  {part:<20} {figures['ms_per_stream_chunk']:8.4f} {figures['percent']:5.1f} %")
    (out / "gpu_check.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
