#!/usr/bin/env python3
"""Judges what bench/gpu_check.sh has run: gpu_report.py OUT GPU SECONDS. Prints a table, writes OUT/gpu_check.json, and
fails where something is wrong."""
import json
import pathlib
import re
import subprocess
import sys

# As NVIDIA states them, the first whose name is in the GPU's: dense products of fp32, of 16 bits and of 8, in 1e12
# operations a second, and 1e12 bytes a second of its memory.
GPUS = {"H200": (67, 989, 1979, 4.8), "H100": (67, 989, 1979, 3.35), "A100-SXM4-80GB": (19.5, 312, 624, 2.0),
        "A100 80GB": (19.5, 312, 624, 2.0), "A100": (19.5, 312, 624, 1.55), "L40S": (91.6, 362, 733, 0.864),
        "L4": (30.3, 121, 242, 0.3), "A10": (31.2, 125, 250, 0.6)}
PEAK_OF = {"fp32": 0, "bf16": 1, "fp16": 1, "int8": 2, "fp8": 2}
# Operations that are products of matrices; the others compute in fp32.
PRODUCTS = re.compile("linear|subsample")
# What log-probabilities may differ by: three times what they do where the kernels are executed on the host.
BOUNDS = {"fp32": 1e-4, "bf16": 0.3, "fp16": 0.03, "int8": 1.5, "fp8": 3.6}
# Ticks that a 99th percentile has to be of, and how long a tick may take for 99 of 100.
LEAST_TICKS = 200
MOST_MS = 100
# Widths whose operations are printed; the JSON has all.
BREAKDOWN_WIDTHS = (1, 64, 512)


class Check:
    """What was run, in `out`, and what is found to be wrong with it."""

    def __init__(self, out, limits=None):
        self.out = out
        self.limits = limits  # of GPUS
        self.failed = []

    def log(self, name):
        """The output of a command, and its exit status; 124 ran out of time, None was not run."""
        path = self.out / f"{name}.log"
        if not path.exists():
            return "", None
        text, _, status = path.read_text(errors="replace").rstrip().rpartition("exit ")
        return text, int(status)

    def fail(self, what, why):
        self.failed.append(f"{what}: {why}")
        return f"FAIL: {why}"

    def tests(self, name):
        """Of a GoogleTest program."""
        _, status = self.log(name)
        path = self.out / f"{name}.json"
        if not path.exists():
            return {"verdict": self.fail(name, f"did not finish (exit status {status})")}
        cases = [case for suite in json.loads(path.read_text())["testsuites"] for case in suite["testsuite"]]
        skipped = [case for case in cases if case["result"] == "SKIPPED"]
        broken = [f"{case['classname']}.{case['name']}" for case in cases if case.get("failures")]
        verdict = "pass"
        if broken or status != 0:
            verdict = self.fail(name, ", ".join(broken) or f"exit status {status}")
        elif len(skipped) == len(cases):
            verdict = self.fail(name, f"all of {len(cases)} tests were skipped")
        return {"verdict": verdict, "run": len(cases) - len(skipped), "failed": broken,
                "skipped": [f"{case['classname']}.{case['name']}" for case in skipped]}

    def reference(self, name):
        text, status = self.log(name)
        if status == 0:
            return "pass"
        wrong = next((line for line in text.splitlines() if "FAILED" in line), text.strip().split("\n")[-1])
        return self.fail(name, wrong)

    def weight_type(self, weights):
        text, status = self.log(f"weights-{weights}")
        if "are not for" in text:
            return "not on this GPU"
        found = re.search(r"CTC log-probabilities differ by (\S+) at most", text)
        if status != 0 or not found:
            return self.fail(f"weights {weights}", text.strip().split("\n")[-1])
        if not float(found[1]) <= BOUNDS[weights]:
            return self.fail(f"weights {weights}", f"log-probabilities differ by {found[1]}, more than {BOUNDS[weights]}")
        return f"log-probabilities differ by {found[1]} at most"

    def sanitizer(self, tool):
        """Only what it has found is a failure."""
        text, status = self.log(f"sanitizer-{tool}")
        if status is None:
            return "not installed"
        found = sum(map(int, re.findall(r"(?:ERROR SUMMARY: |RACECHECK SUMMARY: )(\d+)", text)))
        if found:
            return self.fail(tool, f"{found} found")
        if "not supported" in text.lower():
            return "not supported here"
        if status == 124:
            return "did not finish"
        passed = re.search(r"\[  PASSED  \] (\d+) test", text)
        if status != 0 or not passed or passed[1] == "0" or "SUMMARY: 0" not in text:
            return f"did not run its tests (exit status {status})"
        return f"nothing found in {passed[1]} tests"

    def engine(self, name, weights):
        """Of each width; nothing where the GPU does not multiply in that type."""
        text, status = self.log(name)
        if "are not for" in text:
            return []
        runs = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        if status != 0:
            self.fail(name, text.strip().split("\n")[-1] if status != 124 else "did not finish")
        for run in runs:
            self.judge(f"{name}, {run['batch']:.0f} streams", run, weights)
        return runs

    def judge(self, what, run, weights):
        for figure, right in (("waits_per_tick", 1), ("allocations_per_tick", 0)):
            if run.get(figure) != right:
                self.fail(what, f"{figure} is {run.get(figure)}, not {right}")
        if not run["max_logprob_diff"] <= BOUNDS[weights]:
            self.fail(what, f"log-probabilities differ by {run['max_logprob_diff']}, more than {BOUNDS[weights]}")
        if run["ticks"] < LEAST_TICKS:
            self.fail(what, f"{run['ticks']:.0f} ticks are too few for a 99th percentile")
        if run.get("timed_ticks") == 0:
            self.fail(what, "operations were not timed")
        for operation in run.get("operations", []):
            operation["floor_ms"] = self.floor(operation, weights)

    def floor(self, operation, weights):
        """What the operation takes at least, in milliseconds; None of a GPU that is not known."""
        if self.limits is None:
            return None
        peak = self.limits[PEAK_OF[weights] if PRODUCTS.match(operation["name"]) else 0]
        # GFLOP by TFLOP/s and MB by TB/s: milliseconds, and thousandths of them.
        return max(operation["gflop"] / peak, operation["mb"] / self.limits[3] / 1000)

    def server(self, devices):
        """Real-time clients of a server on these devices: how it went, and the device's counters."""
        name = f"server-{devices.count(',') + 1}"
        text, status = self.log(name)
        if status is None:
            return "not run: there is one GPU"
        if status != 0:
            return self.fail(name, text.strip().split("\n")[-1])
        metrics = (self.out / f"{name}-metrics.txt").read_text()
        for device in devices.split(","):
            if f'tutti_device_allocations_total{{device="{device}"}} 0\n' not in metrics:
                return self.fail(name, f"{device} has allocated memory")
            if not re.search(rf'tutti_device_forwards_total{{device="{device}",how="graph"}} [1-9]', metrics):
                return self.fail(name, f"no tick of {device} was a graph")
        return "pass"


def gpu(index):
    query = ["nvidia-smi", f"--id={index}", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        name, driver, memory = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().split(", ")
    except (OSError, subprocess.CalledProcessError, ValueError):
        return {"name": "unknown"}
    return {"name": name, "driver": driver, "memory": memory}


def names(out, prefix):
    return sorted(path.stem.removeprefix(prefix) for path in out.glob(f"{prefix}*.log"))


def print_engine(engine, limits):
    print(f"{'model':<20} {'weights':<7} {'width':>5} {'p50 ms':>8} {'p99 ms':>8} {'ticks':>6} {'x real':>8} {'TFLOP/s':>8} "
          f"{'of peak':>8} {'waits':>6} {'allocs':>6} {'GPU ms':>7} {'logprob':>9}")
    for name, runs in engine.items():
        model, weights = name.split()
        for run in runs:
            tera = run["gemm_gflops"] / 1000
            share = f"{100 * tera / limits[PEAK_OF[weights]]:7.1f}%" if limits else "       ?"
            print(f"{model:<20} {weights:<7} {run['batch']:>5.0f} {run['tick_ms_p50']:>8.2f} {run['tick_ms_p99']:>8.2f} "
                  f"{run['ticks']:>6.0f} {run['streams_per_core']:>8.0f} {tera:>8.2f} {share} "
                  f"{run.get('waits_per_tick', -1):>6.2f} {run.get('allocations_per_tick', -1):>6.2f} "
                  f"{run.get('device_ms', -1):>7.2f} {run['max_logprob_diff']:>9.1e}")
    print("x real: seconds of audio a second, of all streams, when ticks of that width follow one another: computed, not run")


def widest(runs):
    """The most streams that were run in a tick with a p99 of at most MOST_MS."""
    return max((int(run["batch"]) for run in runs if run["tick_ms_p99"] <= MOST_MS), default=0)


def print_operations(engine):
    print("Operations of a tick by the GPU's own clock, queued one by one; floor: the least that their arithmetic or their "
          "bytes take")
    print(f"{'':<30} {'calls':>6} {'ms':>9} {'floor ms':>9} {'times':>7} {'GFLOP':>9} {'MB':>9}")
    for name, runs in engine.items():
        for run in (run for run in runs if run["batch"] in BREAKDOWN_WIDTHS and "operations" in run):
            print(f"{name}, {run['batch']:.0f} streams: {run['operations_ms']:.3f} ms, {run['timed_ticks']:.0f} ticks")
            for each in run["operations"]:
                floor = each["floor_ms"]
                against = f"{floor:>9.4f} {each['ms'] / floor:>7.1f}" if floor else f"{'?':>9} {'?':>7}"
                print(f"  {each['name']:<28} {each['calls']:>6.0f} {each['ms']:>9.4f} {against} {each['gflop']:>9.3f} "
                      f"{each['mb']:>9.2f}")


def print_snapshots(snapshots):
    for model, runs in snapshots.items():
        for run in runs:
            print(f"{model} bf16, {run['batch']:.0f} streams copied after every 16 chunks: p50 {run['tick_ms_p50']:.2f} ms, p99 "
                  f"{run['tick_ms_p99']:.2f} ms, {run['snapshots_per_second']:.0f} copies and "
                  f"{run['snapshot_mb_per_second']:.0f} MB a second, {run['postponed_per_tick']:.2f} postponed a tick")


def main():
    out, index, seconds = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    report = {"gpu": gpu(index), "seconds": seconds}
    limits = next((limits for name, limits in GPUS.items() if name in report["gpu"]["name"]), None)
    check = Check(out, limits)
    report["tests"] = {name: check.tests(name) for name in ("conformance", "engine-tests")}
    report["references"] = {name: check.reference(f"verify-{name}") for name in names(out, "verify-")}
    report["weights"] = {name: check.weight_type(name) for name in names(out, "weights-")}
    report["sanitizer"] = {tool: check.sanitizer(tool) for tool in ("memcheck", "racecheck", "synccheck", "initcheck")}
    report["engine"] = {name.replace("-", " "): check.engine(f"bench-{name}", name.split("-")[1])
                        for name in names(out, "bench-")}
    report["snapshots"] = {name: check.engine(f"snapshots-{name}", "bf16") for name in names(out, "snapshots-")}
    other = "cuda:0" if index != "0" else "cuda:1"
    report["server"] = {devices: check.server(devices) for devices in (f"cuda:{index}", f"cuda:{index},{other}")}
    if not any(report["engine"].values()):
        check.fail("bench engine", "nothing was measured")
    report["widest_tick_of_p99_100_ms"] = {name: widest(runs) for name, runs in report["engine"].items() if runs}
    report["failed"] = check.failed
    (out / "gpu_check.json").write_text(json.dumps(report, indent=1) + "\n")

    print(report["gpu"]["name"])
    for name, suite in report["tests"].items():
        print(f"{name}: {suite['verdict']}, {suite.get('run', 0)} tests run, {len(suite.get('skipped', []))} skipped")
        for test in suite.get("skipped", []):
            print(f"  skipped {test}")
    for part in ("references", "weights", "sanitizer", "server"):
        for name, verdict in report[part].items():
            print(f"{part} {name}: {verdict}")
    print_engine(report["engine"], limits)
    for name, width in report["widest_tick_of_p99_100_ms"].items():
        print(f"{name}: {width} streams in the widest tick that was run and has a p99 of at most {MOST_MS} ms")
    print_snapshots(report["snapshots"])
    print_operations(report["engine"])
    print(f"{seconds} s in all")
    for failure in check.failed:
        print(f"FAILED {failure}")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
