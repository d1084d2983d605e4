"""The real program, serving, for the tests of clients.

The environment names what is tested: TEST_PROGRAM, TEST_MODEL (a checkpoint directory), TEST_CLIP_TO_PCM (decodes a
clip) and TEST_SPEECH (the clips and what the reference decodes them to).
"""
import http.client
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

PROGRAM = os.environ["TEST_PROGRAM"]
MODEL = os.environ["TEST_MODEL"]
SPEECH = pathlib.Path(os.environ["TEST_SPEECH"])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited in vain until {what() if callable(what) else what}")
        time.sleep(0.05)


class Server:
    """`tutti serve`, on a free port unless `bind` has one."""

    def __init__(self, *options, bind="127.0.0.1:0"):
        # Tests send faster than anybody speaks, on machines that do other things too.
        self.start([PROGRAM, "serve", "--bind", bind, "--model", MODEL, "--latency-target-ms", "0", *options])

    def start(self, command):
        self.log = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=self.log)
        self.address = self.find_in_log(r"listening on (\S+)")

    def read_log(self):
        self.log.seek(0)
        return self.log.read()

    def find_in_log(self, pattern):
        """What its group matched, as soon as it is there."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            found = re.search(pattern, self.read_log())
            if found:
                return found[1]
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"the server did not say {pattern}:\n" + self.read_log())

    def get(self, path):
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def metric(self, name):
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.get("/metrics")[1], re.MULTILINE)
        assert found, f"/metrics has no {name}"
        return float(found[1])

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def expect_exit(self):
        code = self.process.wait(timeout=60)
        log = self.read_log()
        self.log.close()
        assert code == 0, f"exit status {code}:\n{log}"


def decode(path):
    """The samples of a clip, s16le."""
    return subprocess.run([os.environ["TEST_CLIP_TO_PCM"], path], check=True, capture_output=True).stdout
