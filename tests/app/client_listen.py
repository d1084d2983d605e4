"""Drives `tutti listen` and `tutti bench load` against a running server, as a user would.

The environment is that of tutti_server.py.
"""
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "net"))
from client_websockets import Server, load_clips  # noqa: E402
from tutti_server import PROGRAM, SPEECH, decode  # noqa: E402

CLIP = "libri-02.flac"


def tutti(*arguments, **options):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, timeout=120, **options)


class ListenTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.url = f"ws://{cls.server.address}"
        cls.text = next(text for file, _, text in load_clips() if file == CLIP)

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.expect_exit()

    def transcript(self, output):
        return " ".join(output.decode().splitlines())

    def test_a_file_sent_fast_becomes_plain_lines(self):
        done = tutti("listen", self.url, str(SPEECH / CLIP), "--fast")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(self.transcript(done.stdout), self.text)

    def test_a_file_is_sent_at_the_speed_it_was_spoken(self):
        clip = SPEECH / "digit-34.flac"  # at 8 kHz
        start = time.monotonic()
        done = tutti("listen", self.url, str(clip))
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertGreaterEqual(time.monotonic() - start, len(decode(clip)) / 16000)

    def test_raw_audio_comes_through_a_pipe(self):
        done = tutti("listen", self.url, "-", input=decode(SPEECH / CLIP))
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(self.transcript(done.stdout), self.text)

    def test_on_a_terminal_the_text_grows_in_place(self):
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [PROGRAM, "listen", self.url, str(SPEECH / CLIP), "--fast"], stdin=subprocess.DEVNULL, stdout=theirs
        ) as process:
            os.close(theirs)
            shown = b""
            try:
                while piece := os.read(ours, 65536):
                    shown += piece
            except OSError:  # how a terminal says that its other side is closed
                pass
            os.close(ours)
        self.assertEqual(process.returncode, 0)
        self.assertIn(b"\r\x1b[K\x1b[2m", shown)
        lines = re.findall(rb"\d+:\d\d\.\d\d\x1b\[0m  ([^\r\n]+)\r\n", shown)
        self.assertEqual(" ".join(line.decode() for line in lines), self.text)

    def test_control_c_ends_the_recording_and_waits_for_the_last_words(self):
        with subprocess.Popen(
            [PROGRAM, "listen", self.url, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            process.stdin.write(decode(SPEECH / CLIP))
            process.stdin.flush()
            while self.server.metric("tutti_open_streams") == 0:
                time.sleep(0.05)
            time.sleep(2)  # the pipe is read by then, whatever the machine does besides
            process.send_signal(signal.SIGINT)
            output = process.stdout.read()
            self.assertEqual(process.wait(timeout=60), 0)
        self.assertTrue(output.strip())

    def test_a_server_that_is_not_there_is_named(self):
        done = tutti("listen", "ws://127.0.0.1:9", str(SPEECH / CLIP))
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertRegex(done.stderr.decode(), r"^tutti: cannot connect to 127\.0\.0\.1:9: .*is the server running\?\n$")

    def test_what_the_server_refuses_is_told_in_its_words(self):
        done = tutti("listen", f"{self.url}/v1/stream?encoding=opus9", str(SPEECH / CLIP))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.decode(), r"^tutti: the server said: .*opus9.*pcm_s16le.*\n$")

    def test_a_path_that_is_no_stream_is_refused_with_its_status(self):
        done = tutti("listen", f"{self.url}/elsewhere", str(SPEECH / CLIP))
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"HTTP status 404", done.stderr)

    def test_a_file_that_is_no_audio_is_named(self):
        done = tutti("listen", self.url, str(SPEECH / "README.md"))
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"README.md", done.stderr)

    def test_a_load_of_streams_is_measured(self):
        with tempfile.TemporaryDirectory() as directory:
            for name in ("digit-34.flac", "digit-35.flac"):
                os.symlink(SPEECH / name, pathlib.Path(directory) / name)
            os.symlink(SPEECH / "transcripts.jsonl", pathlib.Path(directory) / "transcripts.jsonl")
            done = tutti("bench", "load", "--url", self.url, "--streams", "3", "--seconds", "3",
                         "--audio", directory, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        report = json.loads(done.stdout)
        self.assertEqual((report["streams"], report["errors"]), (3, 0))
        self.assertGreaterEqual(report["sessions"], 3)
        self.assertGreater(report["final_ms"]["p50"], 0)
        self.assertGreaterEqual(report["final_ms"]["p99"], report["final_ms"]["p50"])
        self.assertIn("word_error_rate", report)


class EngineBenchTest(unittest.TestCase):
    def test_the_engine_bench_reports_every_figure(self):
        done = tutti("bench", "engine", "--synthetic", "2x64x128h2v100", "--batch", "1,2", "--seconds", "1", "--ticks", "20",
                     "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        reports = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([report["batch"] for report in reports], [1, 2])
        for report in reports:
            self.assertEqual(
                list(report),
                ["cpu_level", "streams_per_core", "ms_per_stream_chunk", "gemm_ratio", "gemm_gflops", "features_ms", "decode_ms",
                 "max_logprob_diff", "rss_mb", "tick_ms_p50", "tick_ms_p99", "ticks", "batch"],
            )
            self.assertLess(report["max_logprob_diff"], 1e-4)
            self.assertIn(report.pop("cpu_level"), ("portable", "avx2", "avx512", "avx512_vnni", "neon"))
            self.assertTrue(all(value >= 0 for value in report.values()))
            self.assertGreater(report["gemm_ratio"], 0)
            self.assertGreaterEqual(report["ticks"], 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
