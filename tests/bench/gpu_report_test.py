"""bench/gpu_report.py over outputs as bench/gpu_check.sh leaves them: all well, and each thing wrong once."""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.environ["TEST_BENCH"])
import gpu_report  # noqa: E402

RUN = {"batch": 64, "ticks": 300, "tick_ms_p50": 2, "tick_ms_p99": 3, "streams_per_core": 20000, "gemm_gflops": 50000,
       "waits_per_tick": 1, "allocations_per_tick": 0, "device_ms": 1.5, "max_logprob_diff": 0.05,
       "snapshots_per_second": 100, "snapshot_mb_per_second": 300, "postponed_per_tick": 0, "timed_ticks": 90,
       "operations_ms": 2.5, "operations": [{"name": "linear 256x2048", "calls": 24, "ms": 0.4, "gflop": 98.9, "mb": 4.8},
                                            {"name": "layer norm", "calls": 61, "ms": 0.2, "gflop": 0, "mb": 960}]}
METRICS = 'tutti_device_allocations_total{device="cuda:0"} 0\ntutti_device_forwards_total{device="cuda:0",how="graph"} 9\n'


def suite(*cases):
    return json.dumps({"testsuites": [{"testsuite": [{"classname": "Gemm", "name": name, "result": result, **more}
                                                     for name, result, more in cases]}]})


class GpuReport(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)
        for name in ("conformance", "engine-tests"):
            self.log(name, "")
            self.write(f"{name}.json", suite(("Adds", "COMPLETED", {}), ("AddsInFp8", "SKIPPED", {})))
        self.log("verify-tiny", "compared 59, skipped 0\n")
        self.log("weights-bf16", "weights bf16: CTC log-probabilities differ by 1.0e-01 at most\n")
        self.log("weights-fp8", "tutti: weights fp8 are not for cuda:0, which is older\n")
        for tool in ("memcheck", "synccheck", "initcheck"):
            self.log(f"sanitizer-{tool}", "[  PASSED  ] 30 tests.\n========= ERROR SUMMARY: 0 errors\n")
        self.log("sanitizer-racecheck", "[  PASSED  ] 30 tests.\n========= RACECHECK SUMMARY: 0 hazards displayed\n")
        self.run_of("bench-12x256-bf16")
        self.run_of("snapshots-12x256")
        self.log("server-1", "{}\n")
        self.write("server-1-metrics.txt", METRICS)

    def write(self, name, text):
        (self.out / name).write_text(text)

    def log(self, name, text, status=0):
        self.write(f"{name}.log", f"{text}exit {status}\n")

    def run_of(self, name, status=0, **changed):
        self.log(name, "tutti: cuda:0 (bf16), batch 64\n" + json.dumps(RUN | changed) + "\n", status)

    def report(self):
        """The exit status, what is printed and the JSON."""
        printed = io.StringIO()
        with mock.patch.object(gpu_report, "gpu", lambda index: {"name": "NVIDIA H200"}), \
                mock.patch.object(sys, "argv", ["", str(self.out), "0", "300"]), contextlib.redirect_stdout(printed):
            status = gpu_report.main()
        return status, printed.getvalue(), json.loads((self.out / "gpu_check.json").read_text())

    def expect_failure(self, *words):
        status, printed, report = self.report()
        self.assertEqual(status, 1)
        self.assertEqual(len(report["failed"]), 1, report["failed"])
        for word in words:
            self.assertIn(word, report["failed"][0])
        self.assertIn(f"FAILED {report['failed'][0]}", printed)

    def test_where_all_is_well_nothing_fails_and_what_was_skipped_is_named(self):
        status, printed, report = self.report()
        self.assertEqual((status, report["failed"]), (0, []))
        self.assertEqual(report["widest_tick_of_p99_100_ms"], {"12x256 bf16": 64})
        for said in ("skipped Gemm.AddsInFp8", "weights fp8: not on this GPU", "memcheck: nothing found in 30 tests"):
            self.assertIn(said, printed)

    def test_floors_are_of_arithmetic_in_the_products_type_or_of_bytes_whichever_takes_longer(self):
        linear, norm = self.report()[2]["engine"]["12x256 bf16"][0]["operations"]
        self.assertAlmostEqual(linear["floor_ms"], 98.9 / 989)
        self.assertAlmostEqual(norm["floor_ms"], 0.2)

    def test_tests_that_fail_or_are_all_skipped_or_do_not_end_are_failures(self):
        self.write("conformance.json", suite(("Adds", "COMPLETED", {"failures": [{}]})))
        self.expect_failure("conformance", "Gemm.Adds")
        self.write("conformance.json", suite(("Adds", "SKIPPED", {})))
        self.expect_failure("conformance", "all of 1 tests were skipped")
        self.log("conformance", "", 124)
        (self.out / "conformance.json").unlink()
        self.expect_failure("conformance", "did not finish")

    def test_references_and_types_are_judged(self):
        self.log("verify-tiny", "ctc_log_probs  1e-1  FAILED\n", 1)
        self.expect_failure("verify-tiny", "ctc_log_probs")
        self.log("verify-tiny", "")
        self.log("weights-bf16", "weights bf16: CTC log-probabilities differ by nan at most\n")
        self.expect_failure("weights bf16", "nan")

    def test_of_the_sanitizer_only_what_it_finds_is_a_failure(self):
        self.log("sanitizer-memcheck", "========= Error: Device not supported. Please refer to ...\n", 1)
        self.log("sanitizer-synccheck", "[ RUN      ]\n", 124)
        self.log("sanitizer-initcheck", "terminate called\n========= ERROR SUMMARY: 0 errors\n", 134)
        status, printed, _ = self.report()
        self.assertEqual(status, 0)
        for said in ("memcheck: not supported here", "synccheck: did not finish", "initcheck: did not run its tests"):
            self.assertIn(said, printed)
        self.log("sanitizer-racecheck", "========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)\n", 9)
        self.expect_failure("racecheck", "2 found")

    def test_a_tick_waits_once_allocates_nothing_and_is_one_of_many(self):
        for changed, said in (({"waits_per_tick": 1.5}, "waits_per_tick"), ({"allocations_per_tick": 0.1}, "allocations"),
                              ({"max_logprob_diff": 0.4}, "log-probabilities"), ({"ticks": 20}, "too few"),
                              ({"timed_ticks": 0}, "not timed")):
            self.run_of("bench-12x256-bf16", **changed)
            self.expect_failure("bench-12x256-bf16, 64 streams", said)

    def test_what_was_not_measured_is_a_failure(self):
        self.log("bench-12x256-bf16", "tutti: the GPU cannot copy\n", 1)
        status, _, report = self.report()
        self.assertEqual((status, len(report["failed"])), (1, 2))

    def test_a_server_that_allocates_or_repeats_nothing_fails(self):
        self.write("server-1-metrics.txt", METRICS.replace("} 0", "} 7"))
        self.expect_failure("server-1", "allocated")
        self.write("server-1-metrics.txt", METRICS.replace("} 9", "} 0"))
        self.expect_failure("server-1", "graph")


if __name__ == "__main__":
    unittest.main()
